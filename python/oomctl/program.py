"""Runs of the `oomctl` command, as Python objects.

    run = oomctl.submit("job.slurm", "--lr", "1e-6")
    run.wait()
    print(run.state, [attempt.headline for attempt in run.attempts])

Everything is read from the program's `--json` output; nothing is kept here, so a Run can be made again by its name.
"""

import json
import os
import subprocess
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

Path = Union[str, "os.PathLike[str]"]

# What `watch` leaves with when only the waiting ended: interrupted by SIGINT, SIGTERM or a closed terminal.
_DETACHED = (129, 130, 143)


class OomctlError(RuntimeError):
    """The `oomctl` command failed. `exit_code` is one of docs/exit-codes.md."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Attempt(NamedTuple):
    """One job of a run."""

    number: int
    """From 1."""
    job: Optional[str]
    """Job id; None before the scheduler has accepted it."""
    state: Optional[str]
    """The scheduler's word: `RUNNING`, `FAILED`, `COMPLETED`, ..."""
    gpus: int
    """GPUs of the whole job."""
    headline: Optional[str]
    """Why it ended, in one line."""
    kind: Optional[str]
    """Kind of failure (docs/diagnosis.md), such as `cuda_oom`."""
    rungs: List[str]
    """Rungs that were taken after it."""
    changes: Dict[str, Any]
    """Knobs that those rungs changed, with their new values."""


class Run:
    """A run of the program, by its name and the folder of its project."""

    def __init__(self, name: str, folder: Path = ".", program: str = "oomctl") -> None:
        self.name = name
        self.folder = os.path.abspath(folder)
        self.program = program

    def __repr__(self) -> str:
        return "Run({!r}, folder={!r})".format(self.name, self.folder)

    def to_dict(self) -> Dict[str, Any]:
        """What `oomctl status RUN --json` says of this run."""
        return _first(_call(self.program, ["status", self.name, "--json"], self.folder))

    @property
    def state(self) -> str:
        """`pending`, `running`, ..., or how it ended: `succeeded`, `exhausted`, `failed`, `cancelled`, ..."""
        return str(self.to_dict()["state"])

    @property
    def exit_code(self) -> Optional[int]:
        """How it ended, as one of docs/exit-codes.md; None while it is not over."""
        code = self.to_dict()["exit_code"]
        return None if code is None else int(code)

    @property
    def done(self) -> bool:
        """True when it is over and no job will follow."""
        return self.exit_code is not None

    @property
    def attempts(self) -> List[Attempt]:
        """Its jobs, in order."""
        return [_attempt(one) for one in self.to_dict()["attempts"]]

    def wait(self, timeout_s: Optional[float] = None) -> str:
        """Watches the run to its end, resubmitting after failures of memory, and returns its state.

        When `timeout_s` is over, the watch detaches and `subprocess.TimeoutExpired` is raised. The jobs go on, and
        `wait` may be called again.
        """
        command = [self.program, "watch", self.name, "--json"]
        watch = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
        )
        try:
            out, err = watch.communicate(timeout=timeout_s)
        except BaseException:
            # SIGTERM detaches: the jobs go on.
            watch.terminate()
            watch.communicate()
            raise
        if watch.returncode in _DETACHED or not out.strip():
            raise OomctlError(_last_words(err), watch.returncode)
        document = json.loads(out)
        if not document.get("runs"):
            raise OomctlError(_last_words(err), watch.returncode)
        return str(_first(document)["state"])

    def cancel(self) -> None:
        """Ends the run and its job."""
        _call(self.program, ["cancel", self.name], self.folder, parse=False)


def submit(
    script: Optional[Path] = None,
    *arguments: str,
    knobs: Optional[Mapping[str, Any]] = None,
    options: Sequence[str] = (),
    folder: Path = ".",
    program: str = "oomctl"
) -> Run:
    """Submits a job script with its arguments, or without a script the project in `folder`; returns its Run.

    `knobs` are values for `--set`; `options` are further options of `oomctl submit`, such as
    `["--dataset", "d0", "--backend", "local"]`. For a script this agrees beforehand to what `oomctl submit` would ask:
    to submit it, and to submit it again with changes when it runs out of memory. `wait` does the latter.
    """
    words = ["submit", "--json", *options]
    for knob, value in (knobs or {}).items():
        words += ["--set", "{}={}".format(knob, _written(value))]
    if script is not None:
        words += ["--yes", os.fspath(script), *arguments]
    run = _first(_call(program, words, folder))
    return Run(str(run["run"]), folder, program)


def _written(value: Any) -> str:
    """A value as `--set` reads it; Python's True and None are YAML's true and null."""
    return value if isinstance(value, str) else json.dumps(value)


def _call(program: str, words: Sequence[str], folder: Path, parse: bool = True) -> Dict[str, Any]:
    done = subprocess.run(
        [program, *words],
        cwd=os.path.abspath(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    # A run that failed has its own exit code and is still shown.
    if done.stdout.strip() and parse:
        document = json.loads(done.stdout)
        if document.get("runs"):
            return dict(document)
    if done.returncode != 0 or parse:
        raise OomctlError(_last_words(done.stderr), done.returncode)
    return {}


def _first(document: Mapping[str, Any]) -> Dict[str, Any]:
    return dict(document["runs"][0])


def _attempt(one: Mapping[str, Any]) -> Attempt:
    incident = one["incident"] or {}
    return Attempt(
        number=one["attempt"],
        job=one["job"],
        state=one["state"],
        gpus=one["gpus"],
        headline=one["headline"],
        kind=incident.get("kind"),
        rungs=list(one["rungs"]),
        changes={change["knob"]: change["to"] for change in one["changes"]},
    )


def _last_words(text: str) -> str:
    return text.strip() or "oomctl printed nothing"
