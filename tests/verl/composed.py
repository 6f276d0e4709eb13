"""The configuration of a released verl package, composed by Hydra from overrides.

The packages lie where `tests/verl/setup` put them, one folder a version.
"""

import copy
import functools
import json
import os
import sys
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser

FOLDER = Path(os.environ.get("OOMCTL_VERL", Path(__file__).resolve().parents[2] / "target" / "verl")).resolve()


def package(version):
    """The unpacked package of `version`."""
    return FOLDER / version


def composed(version, overrides):
    """Hydra's own composition, a third of a second; an unknown key raises."""
    GlobalHydra.instance().clear()
    folder = package(version) / "verl" / "trainer" / "config"
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        return compose("ppo_trainer", overrides=list(overrides))


@functools.cache
def defaults(version):
    """The composition without overrides."""
    return composed(version, [])


def config(version, overrides):
    """Overrides applied by Hydra's own code to the composition without them; an unknown key raises.

    The same as `composed` for overrides of values, which `test_legal.py` checks, and much faster.
    """
    cfg = copy.deepcopy(defaults(version))
    ConfigLoaderImpl._apply_overrides_to_config(OverridesParser.create().parse_overrides(list(overrides)), cfg)
    return cfg


def answer(check):
    """Reads one JSON case a line from stdin and prints one verdict a line."""
    for line in filter(str.strip, sys.stdin):
        case = json.loads(line)
        try:
            verdict = check(case)
        except Exception as error:  # a verdict too: the configuration was refused
            said = " ".join(str(error).split()) or type(error).__name__
            verdict = {"ok": False, "error": f"{type(error).__name__}: {said[:400]}"}
        print(json.dumps({"version": case["version"], "name": case.get("name"), **verdict}), flush=True)
