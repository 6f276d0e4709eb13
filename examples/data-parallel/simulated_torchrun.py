"""As much of torchrun as the example needs, so that it runs without PyTorch: starts the processes, and ends as they do."""

import argparse
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--nproc_per_node", type=int, required=True)
parser.add_argument("--master_port", type=int, required=True)
parser.add_argument("script")
parser.add_argument("arguments", nargs=argparse.REMAINDER)
args = parser.parse_args()
print(f"simulated torchrun: {args.nproc_per_node} processes meet at port {args.master_port}", flush=True)


def start(rank):
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(args.master_port)}
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(args.nproc_per_node)}
    return subprocess.Popen([sys.executable, args.script, *args.arguments], env={**os.environ, **meeting, **place})


processes = [start(rank) for rank in range(args.nproc_per_node)]
sys.exit(max(abs(process.wait()) for process in processes))
