"""Many jobs on phantom GPUs from one process that has imported their libraries: each line of its input is a job, and a fork runs it.

`rows --forks` starts it. A fork is what `oomctl measure` would have started but for its launcher and its walls: the same library, recorder and steps.
A line has `words` (program and options), `folder`, `world`, `records`; the answer is a line too.
"""
import importlib
import json
import os
import resource
import runpy
import signal
import sys
import time

HOST_GIB, SECONDS = 6, 900


def run(job):
    """The fork: rank 0 of the job's ranks."""
    import oomctl_phantom_drivers as drivers
    import torch

    os.setsid()
    os.chdir(job["folder"])
    sys.stdout.flush()
    with open("said", "w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    drivers.record["pid"] = os.getpid()
    if job["world"] > 1:
        drivers.WORLD = job["world"]
        os.environ.update(drivers.as_rank(job["world"], min(8, job["world"])))
    # Importing has asked for devices, which PyTorch takes for a use of them.
    torch.cuda._is_in_bad_fork = lambda: False
    sys.argv = job["words"]
    sys.path.insert(0, os.path.dirname(job["words"][0]))
    runpy.run_path(job["words"][0], run_name="__main__")


def answered(job):
    """Starts the fork and waits for its end, within limits."""
    child = os.fork()
    if not child:
        try:
            run(job)
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    begun = time.monotonic()
    while not os.waitpid(child, os.WNOHANG)[0]:
        time.sleep(0.1)
        with open("/proc/%d/statm" % child) as file:
            used = int(file.read().split()[1]) * resource.getpagesize()
        if used > HOST_GIB << 30 or time.monotonic() - begun > SECONDS:
            os.kill(child, signal.SIGKILL)
    path = os.path.join(os.environ["OOMCTL_PHANTOM_RECORDS"], "%d.json" % child)
    if not os.path.exists(path):
        return {"outcome": "no answer"}
    with open(path) as file:
        record = json.load(file)
    os.remove(path)
    phases = [{"phase": name, **peaks} for name, peaks in record["phases"].items()]
    done = record["steps"] >= int(os.environ["OOMCTL_PHANTOM_STEPS"])
    peak = {of: max((phase[of] for phase in phases), default=0) for of in ("allocated", "reserved")}
    return {"outcome": "measured" if done else "unmeasured", "reason": str(record["failure"]), "peak": peak, "phases": phases, "reads": record["reads"],
            "largest": record["largest"], "attention": record["attention"], "replaced": record["replaced"], "seconds": round(time.monotonic() - begun, 1)}


for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    print("answer " + json.dumps(answered(json.loads(line))), flush=True)
