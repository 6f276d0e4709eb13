"""The experiment with one process for all GPUs. Simulated: see simulated.py."""

import simulated
from simulated import Model, nn


def main():
    args = simulated.arguments("run_experiment.py")
    devices = list(range(simulated.visible()))
    model = Model()
    model = nn.DataParallel(model, device_ids=devices, output_device=args.output_device)
    for number in range(1, simulated.STEPS + 1):
        model(args)
        simulated.step(number)
    print("done")


if __name__ == "__main__":
    try:
        main()
    except simulated.OutOfMemoryError as error:
        here = (__file__, 14, "main", "model(args)")
        simulated.end_of(error, [here, *simulated.GATHER])
