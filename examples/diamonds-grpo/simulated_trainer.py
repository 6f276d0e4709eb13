#!/usr/bin/env python3
"""A simulated `python3 -m verl.trainer.main_ppo`: verl's own overrides in, a run or a real-format failure out.

    python3 simulated_trainer.py [--verl-version X.Y.Z] key=value ...     one run; exit code 0 or 1
    python3 simulated_trainer.py --table [key=value ...]                  memory per phase, rung by rung, as Markdown

Nothing here needs a GPU, a package or the network. Memory is computed (sim/memory.py states every formula with its
source), messages are written in the real formats of verl, vLLM, Ray and PyTorch. README.md lists the SIM_* switches.
"""

import os
import sys

from sim.story import Story
from sim.switches import SwitchError, read_switches
from sim.table import markdown


def main(arguments, environ):
    """The exit code: 0, 1 for a run that died, 2 for a switch that does not exist."""
    attempt = int(environ.get("OOMCTL_ATTEMPT", "1"))
    environ = dict(environ)
    if "--verl-version" in arguments:
        at = arguments.index("--verl-version")
        environ["SIM_VERL_VERSION"] = arguments[at + 1]
        arguments = arguments[:at] + arguments[at + 2 :]
    try:
        switches = read_switches(environ, attempt)
    except SwitchError as error:
        print(f"[simulated trainer] {error}", file=sys.stderr)
        return 2
    if "--table" in arguments:
        extra = [argument for argument in arguments if argument != "--table"]
        print(markdown(switches.verl_version, switches.gpu_gib, extra))
        return 0
    return Story(arguments, switches, attempt).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
