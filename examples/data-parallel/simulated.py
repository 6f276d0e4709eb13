"""What the two experiments share: a simulated GPU and model. No GPU is used, and nothing is computed.

Memory in GiB, for a model of 355M parameters in fp32 with Adam, vocabulary 50,257:

    weights, gradients   1.32 each (parameters x 4)
    optimizer            2.64 (two moments)
    activations          0.34 a sample at 1,024 tokens, half of it in 16 bits
    outputs              tokens x 50,257 x 4 = 0.19 a sample at 1,024 tokens; the loss holds as much again

Of one process with DataParallel only GPU 0 holds gradients and optimizer, and output_device holds the outputs of
all samples. Of DistributedDataParallel each process holds all of its own.
"""

import argparse
import os
import sys
import time

GIB = 2**30
TOTAL = 15.77
CONTEXT = 0.45
WEIGHTS = GRADIENTS = 355e6 * 4 / GIB
OPTIMIZER = 2 * WEIGHTS
VOCABULARY = 50_257
STEPS = 3


def arguments(name):
    parser = argparse.ArgumentParser(prog=name)
    for flag in ("--task", "--al_method", "--model_name"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--num_shots", type=int, default=0)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--max_prompt_length", type=int, default=1024)
    parser.add_argument("--output_device", type=int, default=0)
    parser.add_argument("--fp16", action="store_true")
    args = parser.parse_args()
    print(f"simulated trainer: {name} {args.task} {args.al_method} {args.model_name} {args.num_shots} shots", flush=True)
    return args


def visible():
    """How many GPUs the program sees."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    return 4 if listed is None else len([word for word in listed.split(",") if word])


def foreign(device):
    """What somebody else holds on a GPU that the program sees: SIM_FOREIGN_GIB on the machine's first."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    first = device == 0 and listed.split(",")[0] == "0"
    return float(os.environ.get("SIM_FOREIGN_GIB", "0")) if first else 0.0


def activations(args):
    return 0.34 * args.max_prompt_length / 1024 * (0.5 if args.fp16 else 1.0)


def outputs(args):
    return args.max_prompt_length * VOCABULARY * 4 / GIB


class OutOfMemoryError(RuntimeError):
    pass


OutOfMemoryError.__module__ = "torch"


def allocate(device, held, asked):
    """Fails as PyTorch 2.5 does where a GPU cannot hold so much."""
    others = foreign(device)
    free = TOTAL - others - held
    if asked <= free:
        return
    stranger = f"Process 77 has {others:.2f} GiB memory in use. " if others else ""
    raise OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {asked:.2f} GiB. GPU {device} has a total capacity of {TOTAL} GiB of "
        f"which {max(free, 0.01):.2f} GiB is free. {stranger}Including non-PyTorch memory, this process has "
        f"{min(held, TOTAL):.2f} GiB memory in use. Of the allocated memory {held - CONTEXT:.2f} GiB is allocated by "
        "PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
        "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


def step(number):
    time.sleep(float(os.environ.get("SIM_STEP_S", "0.2")))
    print(f"step {number}/{STEPS}", flush=True)


def end_of(error, frames):
    """The end of a program with PyTorch's own frames, whose places are those of release 2.5."""
    print("Traceback (most recent call last):", file=sys.stderr)
    for file, line, function, code in frames:
        print(f'  File "{file}", line {line}, in {function}\n    {code}', file=sys.stderr)
    print(f"torch.OutOfMemoryError: {error}", file=sys.stderr)
    sys.exit(1)


class Model:
    """Stands for the model; it only has a size."""


class DataParallel:
    """One process, a replica on each GPU."""

    def __init__(self, module, device_ids, output_device=0):
        self.module, self.device_ids, self.output_device = module, device_ids, output_device

    def __call__(self, args):
        share = -(-args.batch_size // len(self.device_ids))
        replica = WEIGHTS + share * (activations(args) + outputs(args))
        for device in self.device_ids:
            first = GRADIENTS + OPTIMIZER if device == 0 else 0.0
            held = CONTEXT + first + replica
            allocate(device, CONTEXT + first, replica)
            if device == self.output_device:
                gathered = args.batch_size * outputs(args)
                allocate(device, held, gathered)
                allocate(device, held + gathered, gathered)


class nn:
    """As much of `torch.nn` as the experiment names."""

    DataParallel = DataParallel


PACKAGES = "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel"
GATHER = [
    (f"{PACKAGES}/data_parallel.py", 194, "forward", "return self.gather(outputs, self.output_device)"),
    (f"{PACKAGES}/scatter_gather.py", 104, "gather", "res = gather_map(outputs)"),
    (f"{PACKAGES}/_functions.py", 79, "forward", "return comm.gather(inputs, ctx.dim, ctx.target_device)"),
    (f"{PACKAGES}/comm.py", 235, "gather", "return torch._C._gather(tensors, dim, destination)"),
]
