"""The same experiment with one process a GPU, for torchrun. Simulated: see simulated.py.

A real one calls torch.distributed.init_process_group and wraps its model in DistributedDataParallel.
"""

import os

import simulated


def main():
    args = simulated.arguments("run_experiment_ddp.py")
    rank = int(os.environ["LOCAL_RANK"])
    states = simulated.WEIGHTS + simulated.GRADIENTS + simulated.OPTIMIZER
    samples = args.batch_size * (simulated.activations(args) + 3 * simulated.outputs(args))
    for number in range(1, simulated.STEPS + 1):
        simulated.allocate(rank, simulated.CONTEXT + states, samples)
        if rank == 0:
            simulated.step(number)
    print(f"process {rank} done")


if __name__ == "__main__":
    try:
        main()
    except simulated.OutOfMemoryError as error:
        simulated.end_of(error, [(__file__, 19, "main", "loss = model(batch)")])
