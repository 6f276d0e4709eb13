"""Stands in for the training program: takes its flags, does its arithmetic, and dies as PyTorch would.

SIM_GPU_GIB is the memory of the simulated GPU (15.48 by default), SIM_STEP_S the time of a step.
"""

import argparse
import os
import sys
import time

GIB = 1 << 30


def arguments():
    parser = argparse.ArgumentParser()
    for name, default in [
        ("graph_d", 250),
        ("graph_l", 5),
        ("graph_vocab_size", 10000),
        ("paths_repeated", 16),
        ("embedding_dim", 64),
        ("batch_size", 200),
        ("eval_samples", 40000),
        ("eval_batch_size", None),
        ("seed", 0),
    ]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--graph_holdout", type=float, default=0.2)
    return parser.parse_args()


def phases(args):
    """What is in memory together, with what is asked for last."""
    table = 4 * args.graph_vocab_size * args.embedding_dim
    row = 4 * args.graph_vocab_size
    context = 800 << 20
    paths = args.graph_d * args.paths_repeated * args.graph_l * 8
    rows = min(args.eval_batch_size or args.eval_samples, args.eval_samples)
    yield "train", 8 * table + paths + context + args.batch_size * row, args.batch_size * row
    yield "evaluate", 6 * table + context, rows * row


def main():
    args = arguments()
    gpu = float(os.environ.get("SIM_GPU_GIB", "15.48")) * GIB
    print(f"seed {args.seed}, {args.graph_d} paths of {args.graph_l} nodes", flush=True)
    for phase, held, asked in phases(args):
        if held + asked > gpu:
            free = max(gpu - held, 0)
            print(
                "Traceback (most recent call last):\n"
                f'  File "{os.path.abspath(__file__)}", line 1, in {phase}\n'
                "torch.OutOfMemoryError: CUDA out of memory. "
                f"Tried to allocate {asked / GIB:.2f} GiB. GPU 0 has a total capacity of {gpu / GIB:.2f} GiB "
                f"of which {free / GIB:.2f} GiB is free. Of the allocated memory {held / GIB:.2f} GiB is allocated "
                "by PyTorch, and 1.00 MiB is reserved by PyTorch but unallocated.",
                file=sys.stderr,
                flush=True,
            )
            return 1
    for step in range(1, 4):
        time.sleep(float(os.environ.get("SIM_STEP_S", "0.01")))
        print(f"step {step}/3", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
