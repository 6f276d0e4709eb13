"""The SIM_* environment variables. README.md lists them; an unknown or malformed one is an error, not a guess."""

from dataclasses import dataclass, fields


class SwitchError(Exception):
    """A SIM_* variable that this simulation does not have, or whose value it cannot read."""


@dataclass(frozen=True)
class Switches:
    """One field a variable: SIM_GPU_GIB is `gpu_gib`. The default's type is the variable's type."""

    verl_version: str = "0.9.1"
    torch_version: str = ""
    gpu_gib: float = 79.18
    gpus: int = 0
    foreign_gib: float = 0.0
    seed: int = 0
    steps: int = 12
    step_s: float = 0.35
    start_s: float = 2.4
    only_attempts: str = ""
    oom_at_step: int = 0
    survived_oom: bool = False
    fail_at_step: int = 0
    hang_s: float = 0.0
    nccl_noise: str = "auto"
    host_oom: bool = False
    host_oom_mib: int = 0


FAULTS = ("oom_at_step", "survived_oom", "fail_at_step", "hang_s", "host_oom")


def read_switches(environ, attempt):
    """The switches of one attempt; faults are off on attempts that SIM_ONLY_ATTEMPTS does not list."""
    kinds = {field.name: type(field.default) for field in fields(Switches)}
    values = {}
    for name, text in environ.items():
        if not name.startswith("SIM_"):
            continue
        key = name[4:].lower()
        if key not in kinds:
            raise SwitchError(f"{name} is no switch of the simulated trainer; README.md lists them")
        values[key] = _read(name, text, kinds[key])
    only = {int(number) for number in values.get("only_attempts", "").replace(",", " ").split()}
    if only and attempt not in only:
        values = {key: value for key, value in values.items() if key not in FAULTS}
    return Switches(**values)


def _read(name, text, kind):
    if kind is bool:
        return text not in ("", "0", "false", "False")
    try:
        return kind(text)
    except ValueError as error:
        raise SwitchError(f"{name}={text}: {error}") from error
