"""Does verl's own validator accept the rendered overrides?

Runs the released package's `validate_config` (before 0.6.0 `RayPPOTrainer._validate_config`) with
empty stand-ins for torch, ray, transformers and whatever else is not installed. Reads and prints lines
as compose_check.py does. One process a version, because all packages are called verl.
"""

import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import subprocess
import sys
import types

from composed import answer, config, package

INSTALLED = {"verl", "hydra", "omegaconf", "antlr4", "yaml", "packaging"}


class StandIn(type):
    """A class whose every attribute is another such class; calling it decorates or makes a stand-in.

    A class of verl that inherits from a stand-in is a real one: calling it makes objects.
    """

    def __init__(cls, name, bases, space, **_):
        type.__init__(cls, name, bases, space)
        if bases:
            cls._real = True

    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(name, (), {})

    def __call__(cls, *args, **kwargs):
        if cls.__dict__.get("_real"):
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return StandIn("called", (), {})

    def __iter__(cls):
        return iter(())

    def __enter__(cls):
        return cls

    def __exit__(cls, *_):
        return False

    def __bool__(cls):
        return False

    def __or__(cls, _):
        return cls

    __ror__ = __or__

    def __getitem__(cls, _):
        return cls

    def __lt__(cls, _):
        return False

    __le__ = __gt__ = __ge__ = __lt__


class Empty(types.ModuleType):
    """An empty module: any name in it is a stand-in."""

    __version__ = "99.0.0"
    __path__ = []

    def __getattr__(self, name):
        if name in ("__file__", "__wrapped__"):
            raise AttributeError(name)
        return StandIn(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for everything that is neither installed nor of Python's own library."""

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in INSTALLED or top in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Empty(spec.name)

    def exec_module(self, module):
        pass


def validator(version):
    """A function of the configuration that raises what verl raises."""
    sys.meta_path.insert(0, Finder())
    sys.path.insert(0, str(package(version)))
    if tuple(map(int, version.split("."))) < (0, 6, 0):
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer

        def run(cfg, reference):
            trainer = types.SimpleNamespace(config=cfg, use_reference_policy=reference, use_critic=False, use_rm=False)
            RayPPOTrainer._validate_config(trainer)

        return run
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    def run(cfg, reference):
        validate_config(cfg, use_reference_policy=reference, use_critic=False)
        # What workers do first; its checks are those of RolloutConfig.__post_init__.
        omega_conf_to_dataclass(cfg.actor_rollout_ref.rollout)

    return run


def serve(version):
    """Answers the cases of one version."""
    with contextlib.redirect_stdout(io.StringIO()):
        run = validator(version)

    def check(case):
        cfg = config(version, case["overrides"])
        reference = bool(cfg.algorithm.use_kl_in_reward or cfg.actor_rollout_ref.actor.use_kl_loss)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            run(cfg, reference)
        if "All configuration checks passed" not in said.getvalue():
            raise RuntimeError("the validator did not come to its end")
        return {"ok": True}

    answer(check)


def main():
    cases = [line for line in sys.stdin if line.strip()]
    versions = [json.loads(line)["version"] for line in cases]
    verdicts = {}
    for version in sorted(set(versions)):
        mine = [i for i, v in enumerate(versions) if v == version]
        done = subprocess.run(
            [sys.executable, __file__, version],
            input="".join(cases[i] for i in mine),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        verdicts.update(zip(mine, done.stdout.splitlines(), strict=True))
    for i in range(len(cases)):
        print(verdicts[i])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1])
    else:
        main()
