"""Records what a program does on phantom GPUs: `oomctl measure` puts this file first on PYTHONPATH.

It waits for torch to be imported, then marks phases (init, forward, backward, optimizer step) by PyTorch's own hooks, and those of
`oomctl_phantom_phases.py`, and writes what the allocator says of each into $OOMCTL_PHANTOM_RECORDS/PID.json, again after every phase, so
that a program that is ended leaves it.
"""
import atexit
import ctypes
import gc
import json
import os
import sys
import threading
import time
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__))
RECORDS = os.environ.get("OOMCTL_PHANTOM_RECORDS", "")
STEPS = int(os.environ.get("OOMCTL_PHANTOM_STEPS", "0"))
MOST_ENTRIES = 200_000
MOST_SITES = 12
MOST_FRAMES = 200
MOST_POINTS = 120
MOST_MARKS = 2000

record = {
    "pid": os.getpid(), "phases": {}, "steps": 0, "replaced": [], "reads": {}, "attention": {}, "failure": None, "largest": [], "after_a_step": []
}
now = {"phase": "init", "backward": 0, "engine": False, "stepped": False, "reads": 0}
lock = threading.RLock()
kept = []
marks = [(0, "init")]


def line_of(frames, inner=False):
    """The program's own line: the innermost that lies in no package, else the innermost of all. `inner` adds the latter to the former."""
    first = None
    for name, number in frames:
        if name.startswith(FOLDER) or name.startswith("<") or "??" in name:
            continue
        first = first or (name, number)
        if "-packages" + os.sep not in name and os.sep + "lib" + os.sep + "python3" not in name:
            within = " (in %s:%d)" % (first[0].split("-packages" + os.sep)[-1], first[1]) if inner and first[0] != name else ""
            return "%s:%d%s" % (name, number, within)
    return "%s:%d" % first if first else None


def stack():
    frame = sys._getframe(2)
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def write():
    if not RECORDS or os.getpid() != record["pid"]:
        return
    path = os.path.join(RECORDS, "%d.json" % os.getpid())
    record["phase"] = now["phase"]
    with open(path + ".new", "w") as file:
        json.dump(record, file)
    os.replace(path + ".new", path)


def figures():
    text = ctypes.create_string_buffer(1024)
    ctypes.CDLL(None).oomctl_phantom_figures(0, text, 1024)
    return json.loads(text.value.decode() or "{}")


def mark(torch, phase=None):
    """Ends the phase that is, and begins another."""
    with lock:
        if torch.cuda.is_initialized():
            seen = record["phases"].setdefault(now["phase"], {"allocated": 0, "reserved": 0})
            for index in range(torch.cuda.device_count()):
                stats = torch.cuda.memory_stats(index)
                seen["allocated"] = max(seen["allocated"], stats.get("allocated_bytes.all.peak", 0))
                seen["reserved"] = max(seen["reserved"], stats.get("reserved_bytes.all.peak", 0))
                record["ooms"] = max(record.get("ooms", 0), stats.get("num_ooms", 0))
                torch.cuda.reset_peak_memory_stats(index)
            if record["steps"] and now["phase"] not in record["after_a_step"]:
                record["after_a_step"].append(now["phase"])
            record["device"] = figures()
        if phase:
            now["phase"] = phase
            if len(marks) < MOST_MARKS:
                marks.append((int(time.time() * 1e6), phase))
        write()


def largest(torch):
    """What was held when most was: the allocator's own history, played again."""
    traces = torch.cuda.memory._snapshot().get("device_traces") or [[]]
    trace = max(traces, key=len)
    held, total, most, peak = {}, 0, 0, {}
    grown = False
    for entry in trace:
        if entry["action"] == "alloc":
            held[entry["addr"]] = entry
            total += entry["size"]
            grown = total > most
            most = max(most, total)
        elif entry["action"] in ("free_requested", "free"):
            if grown:
                peak, grown = dict(held), False
            gone = held.pop(entry["addr"], None)
            total -= gone["size"] if gone else 0
    if grown or not peak:
        peak = dict(held)
    sites = {}
    for entry in peak.values():
        frames = ((frame["filename"], frame["line"]) for frame in entry.get("frames", ()))
        site = sites.setdefault(line_of(frames) or "no Python line (backward)", [0, 0])
        site[0] += entry["size"]
        site[1] += 1
    found = sorted(sites.items(), key=lambda site: -site[1][0])[:MOST_SITES]
    record["largest"] = [{"line": line, "bytes": size, "tensors": count} for line, (size, count) in found]
    record["history_complete"] = len(trace) < MOST_ENTRIES


def course(torch):
    """Memory over time from the allocator's own history: the most of each stretch of allocations, on the device that has most of them."""
    traces = torch.cuda.memory._snapshot().get("device_traces") or [[]]
    device = max(range(len(traces)), key=lambda index: len(traces[index]))
    signs = {"alloc": (1, 0), "free_completed": (-1, 0), "segment_alloc": (0, 1), "segment_free": (0, -1), "segment_map": (0, 1), "segment_unmap": (0, -1)}
    events = [(entry.get("time_us", 0), entry["size"], signs[entry["action"]]) for entry in traces[device] if entry["action"] in signs]
    if not events:
        return
    # What a history that is too short has lost shows at its end.
    used = torch.cuda.memory_allocated(device) - sum(size * sign[0] for _, size, sign in events)
    kept = torch.cuda.memory_reserved(device) - sum(size * sign[1] for _, size, sign in events)
    stretch = -(-len(events) // MOST_POINTS)
    points = {"ms": [], "allocated_mib": [], "reserved_mib": [], "phases": []}
    for place in range(0, len(events), stretch):
        begin, most = events[place][0], [0, 0]
        for _, size, sign in events[place:place + stretch]:
            used, kept = used + size * sign[0], kept + size * sign[1]
            most = [max(most[0], used), max(most[1], kept)]
        before = [phase for at, phase in marks if at <= begin]
        if before and (not points["phases"] or points["phases"][-1]["phase"] != before[-1]):
            points["phases"].append({"from": len(points["ms"]), "phase": before[-1]})
        points["ms"].append(max(0, (begin - events[0][0]) // 1000))
        points["allocated_mib"].append(most[0] >> 20)
        points["reserved_mib"].append(most[1] >> 20)
    record["curve"] = points


def held(torch):
    """What is held through a step, at its end: weights, gradients and states of the fullest device."""
    own, states = {}, {}
    for value in gc.get_objects():
        if issubclass(type(value), torch.Tensor) and isinstance(value, torch.nn.Parameter):
            own[id(value)] = value
        elif issubclass(type(value), torch.optim.Optimizer):
            states.update((id(state), state) for of in value.state.values() for state in of.values())
            groups = (group["params"] for group in value.param_groups)
            states.update((id(weight), weight) for group in groups for weight in group if not isinstance(weight, torch.nn.Parameter))
    kinds = {
        "weights": own.values(),
        "gradients": [value.grad for value in own.values() if value.is_leaf and value.grad is not None],
        "optimizer states": states.values(),
    }
    record["held"] = {}
    for kind, values in kinds.items():
        devices = {}
        for value in values:
            value = getattr(value, "_local_tensor", value)
            if isinstance(value, torch.Tensor) and value.is_cuda:
                storage = value.untyped_storage()
                try:
                    devices.setdefault(value.device, {})[storage.data_ptr()] = storage.nbytes()
                except RuntimeError:
                    pass  # What is only traced has no memory.
        record["held"][kind] = max((sum(sizes.values()) for sizes in devices.values()), default=0)


def finish(torch):
    mark(torch)
    if torch.cuda.is_initialized():
        try:
            largest(torch)
            course(torch)
        except Exception as error:
            record["no_history"] = "%s: %s" % (type(error).__name__, error)
    write()


def watch_reads():
    """Each copy from the device to the host calls back, on the thread that asked for it."""

    def read(size):
        line = line_of(stack(), inner=True) or "no Python line"
        with lock:
            record["reads"][line] = record["reads"].get(line, 0) + 1
            # A loop may wait for a value for ever: what it read so far is left now and then.
            now["reads"] += 1
            if now["reads"] & (now["reads"] - 1) == 0:
                write()

    kind = ctypes.CFUNCTYPE(None, ctypes.c_size_t)
    kept.append(kind(read))
    register = ctypes.CDLL(None).oomctl_phantom_on_read
    register.argtypes = [ctypes.c_void_p]
    register(ctypes.cast(kept[-1], ctypes.c_void_p))


def watch_steps(torch):
    forward = torch.nn.modules.module.register_module_forward_pre_hook

    def begun(module, inputs):
        if now["phase"] == "load":
            return
        kept_hook.remove()
        if now["phase"] == "init":
            mark(torch, "forward")

    kept_hook = forward(begun)
    backward = torch.autograd.backward

    def marked(*args, **kwargs):
        if now["backward"] == 0:
            mark(torch, "backward")
        now["backward"] += 1
        try:
            return backward(*args, **kwargs)
        except BaseException as error:
            error.oomctl_phase = "backward"
            raise
        finally:
            now["backward"] -= 1
            if now["backward"] == 0:
                mark(torch, "forward")
                # Optimizers that step inside of the backward pass, one for each weight.
                if now["stepped"]:
                    now["stepped"] = False
                    stepped(torch)

    torch.autograd.backward = marked

    def counts():
        """Whether a step of PyTorch's is one of training: an engine takes several in its own, and some before it trains."""
        return not now["engine"] and now["phase"] != "init"

    def before(optimizer, args, kwargs):
        if counts() and not now["backward"]:
            mark(torch, "optimizer step")

    def after(optimizer, args, kwargs):
        if not counts():
            return
        if record["steps"] < 2:
            try:
                held(torch)
            except Exception as error:
                record["no_terms"] = "%s: %s" % (type(error).__name__, error)
        if now["backward"]:
            now["stepped"] = True
            return
        mark(torch, "forward")
        stepped(torch)

    from torch.optim import optimizer

    optimizer.register_optimizer_step_pre_hook(before)
    optimizer.register_optimizer_step_post_hook(after)


def stepped(torch):
    """One more step of training is over."""
    record["steps"] += 1
    if STEPS and record["steps"] >= STEPS:
        record["ended_by"] = "steps"
        finish(torch)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def step_of_engine(step):
    """The step of an engine as one, with all that it does before and after those of its optimizer."""

    def taken(*args, **kwargs):
        torch = sys.modules["torch"]
        mark(torch, "optimizer step")
        now["engine"] = True
        try:
            done = step(*args, **kwargs)
        finally:
            now["engine"] = False
        mark(torch, "forward")
        stepped(torch)
        return done

    return taken


def imported(torch):
    record["torch"] = torch.__version__
    record["cuda"] = torch.version.cuda
    record["python"] = sys.version.split()[0]
    write()
    if torch.version.cuda is None:
        return
    drivers.one_of_many(torch)
    drivers.attention(torch)
    watch_reads()
    watch_steps(torch)
    torch.cuda.memory._record_memory_history(max_entries=MOST_ENTRIES, stacks="python")
    atexit.register(finish, torch)


class Waits:
    """Finds modules as Python would, and calls what waits for them once they are there. `importlib.util.find_spec` asks too, and loads nothing."""

    def __init__(self, waiting):
        self.waiting = waiting
        self.asking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting or name in self.asking:
            return None
        import importlib.util

        self.asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking.discard(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            try:
                phases.watch(module)
                if self.waiting[name]:
                    self.waiting[name](module)
            except Exception as error:
                record["not_recorded"] = "%s: %s" % (type(error).__name__, error)
                write()

        spec.loader.exec_module = exec_module
        return spec


def loopback():
    """A network of its own begins with a loopback that is down; programs talk to themselves by it."""
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        fcntl.ioctl(end, 0x8914, struct.pack("16sh14x", b"lo", 1))


def watch_end():
    hook = sys.excepthook

    def failed(kind, error, trace):
        record["failure"] = {"type": kind.__module__ + "." + kind.__qualname__, "text": str(error)[:2000]}
        record["failed_in"] = getattr(error, "oomctl_phase", now["phase"])
        record["traceback"] = "".join(traceback.format_exception(kind, error, trace, limit=-MOST_FRAMES))
        write()
        hook(kind, error, trace)

    sys.excepthook = failed


def start():
    if not RECORDS:
        return
    watch_end()
    if os.environ.get("OOMCTL_PHANTOM_NETWORK") == "off":
        try:
            loopback()
        except OSError:
            pass
    sys.meta_path.insert(0, Waits({**dict.fromkeys(phases.FUNCTIONS), "torch": imported, **drivers.WAITING}))
    drivers.launched()
    write()


import oomctl_phantom_drivers as drivers  # noqa: E402
import oomctl_phantom_phases as phases  # noqa: E402

drivers.record = record
drivers.step_of_engine = step_of_engine
phases.now = now
phases.mark = mark
start()

# The environment's own file of this name comes next, as it would without us.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != FOLDER]
ours = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401
except ImportError:
    sys.modules["sitecustomize"] = ours
