#!/usr/bin/env python3
"""A simulated trainer: rounds of GRPO, told by a YAML file as RL-Swarm is.

No GPU is used and nothing is learned. The memory of a round is computed from the figures below, which are made up; when it is
more than the GPU has, the program dies as PyTorch does. Variable: SIM_GPU_GIB, the memory of the GPU (24).
"""

import argparse
import os
import sys

# Answers go through in minibatches; each needs logits and activations in GiB, of fp32.
ANSWER_GIB = 0.8
STATES_GIB = 7.4


def values(path):
    """The single values of a YAML file by their dotted paths: mappings in blocks and plain scalars only, which is
    all that this program needs. A machine without PyYAML runs it too."""
    found, above = {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.split(" #")[0].rstrip()
            text = line.lstrip(" -")
            if not text or text.startswith("#"):
                continue
            indent = len(line) - len(text)
            above = [(i, k) for i, k in above if i < indent]
            key, _, value = text.partition(":")
            above.append((indent, key))
            if value:
                found[".".join(k for _, k in above)] = value.strip().strip("'\"")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-path", required=True)
    parser.add_argument("--config-name", required=True)
    args = parser.parse_args()
    path = os.path.join(args.config_path, args.config_name)
    config = values(path)
    training, trainer = "training.", "game_manager.trainer.config."
    samples = int(config["game_manager.data_manager.num_train_samples"])
    answers = samples * int(config[training + "num_generations"])
    minibatch = min(int(config.get(trainer + "minibatch_size", answers)), answers)
    steps = int(config[training + "gradient_accumulation_steps"])
    half = 0.5 if config[training + "fp16"] == "true" else 1.0
    need = half * (STATES_GIB + ANSWER_GIB * minibatch)
    total = float(os.environ.get("SIM_GPU_GIB", "24"))
    print(f"simulated swarm trainer: {path}", flush=True)
    print(f"{answers} answers a round, {minibatch} at once, {steps} forwards a step, fp16 {config[training + 'fp16']}")
    rounds = int(config[training + "max_round"])
    for number in range(1, rounds + 1):
        if need > total - 0.5:
            free = max(total - need * 0.8, 0.1)
            sys.stdout.flush()
            lines = ["Traceback (most recent call last):", f'  File "{__file__}", line 64, in step', "    loss.backward()"]
            lines.append(
                f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {need * 0.2:.2f} GiB. GPU 0 has a total capacity of "
                f"{total:.2f} GiB of which {free:.2f} GiB is free. Including non-PyTorch memory, this process has "
                f"{total - free:.2f} GiB memory in use. Of the allocated memory {total - free - 0.6:.2f} GiB is "
                "allocated by PyTorch, and 102.00 MiB is reserved by PyTorch but unallocated."
            )
            print("\n".join(lines), file=sys.stderr)
            return 1
        print(f"Joining round: {number}/{rounds}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
