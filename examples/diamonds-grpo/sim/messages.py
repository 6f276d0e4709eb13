"""The texts of PyTorch, vLLM, Ray, NCCL and verl, in their real formats. Written for this example; nothing is printed here."""

import time

from . import frames

GIB = 2**30

TORCH_OF_VERL = [
    ((0, 9, 0), "2.10"),
    ((0, 7, 0), "2.9"),
    ((0, 6, 0), "2.8"),
    ((0, 5, 0), "2.7"),
    ((0, 0, 0), "2.6"),
]
"""The PyTorch generation that this example pairs with a verl version: an assumption, SIM_TORCH_VERSION overrides it."""


def torch_for(version):
    """'2.10' for verl 0.9 and so on."""
    return next(torch for since, torch in TORCH_OF_VERL if version >= since)


def torch_generation(text):
    """'2.6' -> (2, 6)."""
    return tuple(int(part) for part in text.split(".")[:2])


def oom_class(torch):
    """The class name as a traceback prints it."""
    if torch >= (2, 5):
        return "torch.OutOfMemoryError"
    return "torch.cuda.OutOfMemoryError" if torch >= (1, 13) else "RuntimeError"


def size(gib):
    """Bytes as PyTorch's allocator prints them: two decimals, GiB from 1 GiB on, else MiB."""
    return f"{gib:.2f} GiB" if gib >= 1 else f"{gib * 1024:.2f} MiB"


def oom_text(torch, figures, rank):
    """PyTorch's message for one generation; `figures` is a story.OomFigures. c10/cuda/CUDACachingAllocator.cpp."""
    f = figures
    start = f"CUDA out of memory. Tried to allocate {size(f.requested)}"
    if torch < (2, 1):
        return (
            f"{start} (GPU {rank}; {size(f.total)} total capacity; {size(f.allocated)} already allocated; "
            f"{size(f.free)} free; {size(f.allocated + f.unallocated)} reserved in total by PyTorch) "
            "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  "
            "See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
        )
    others = "".join(f"Process {pid} has {size(gib)} memory in use. " for pid, gib in f.others)
    variable = "PYTORCH_ALLOC_CONF" if torch >= (2, 10) else "PYTORCH_CUDA_ALLOC_CONF"
    return (
        f"{start}. GPU {rank} has a total capacity of {size(f.total)} of which {size(f.free)} is free. {others}"
        f"Including non-PyTorch memory, this process has {size(f.in_use)} memory in use. "
        f"Of the allocated memory {size(f.allocated)} is allocated by PyTorch, and {size(f.unallocated)} is reserved "
        "by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        f"{variable}=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  "
        "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )


CUMEM_ERROR = "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62"


def colour(actor, pid, ip=None):
    """Ray's prefix in front of a line of an actor."""
    where = f", ip={ip}" if ip else ""
    return f"\x1b[36m({actor} pid={pid}{where})\x1b[0m "


def worker_error(version, phase, uses_ref, pid, error):
    """A worker's traceback as the Ray driver raises it."""
    name = frames.method(version, phase, uses_ref)
    kind = error.split(":", 1)[0].rsplit(".", 1)[-1]
    return (
        f"ray.exceptions.RayTaskError({kind}): \x1b[36mray::WorkerDict.{name}()\x1b[39m (pid={pid}, ip=10.0.0.11, "
        "actor_id=5b1c0f6a3f7e2d9c4a1be8d701000000, repr=<verl.single_controller.ray.base.WorkerDict object at 0x7f3c2c0d5b10>)\n"
        f"{frames.render(frames.stack(version, phase))}\n{error}"
    )


def driver_error(version, overrides, cause):
    """What the driver prints before it exits 1."""
    entry = ("verl/trainer/main_ppo.py", 47, "main", "run_ppo(config)")
    get = ("ray/_private/worker.py", 2961, "get", "values, debugger_breakpoint = worker.get_objects(")
    fit = ("verl/trainer/main_ppo.py", 339, "run", "trainer.fit()")
    return (
        f"Error executing job with overrides: {overrides!r}\nTraceback (most recent call last):\n"
        f"{frames.render([entry, get])}\n{frames.render([fit])}\n{cause}\n\n"
        "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."
    )


def vllm_info(location, text, at=None):
    """One INFO line of vLLM: `INFO 06-05 06:18:13 [file.py:N] text`."""
    stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(at))
    return f"INFO {stamp} [{location}] {text}"


def vllm_start(version, kv_gib, tokens, length):
    """What vLLM says about its KV cache; blocks of 16 tokens."""
    if version < (0, 5, 0):
        return [
            vllm_info(
                "executor_base.py:112",
                f"# cuda blocks: {tokens // 16}, # CPU blocks: {4 * 2**30 // (16 * 28672)}",
            ),
            vllm_info(
                "executor_base.py:117",
                f"Maximum concurrency for {length} tokens per request: {tokens / length:.2f}x",
            ),
        ]
    return [
        vllm_info("gpu_worker.py:298", f"Available KV cache memory: {kv_gib:.2f} GiB"),
        vllm_info("kv_cache_utils.py:1087", f"GPU KV cache size: {tokens:,} tokens"),
        vllm_info(
            "kv_cache_utils.py:1091",
            f"Maximum concurrency for {length:,} tokens per request: {tokens / length:.2f}x",
        ),
        vllm_info("core.py:151", f"# GPU blocks: {tokens // 16}, # CPU blocks: 0"),
    ]


def no_kv_cache():
    """vLLM's share does not even hold weights and activations: it must become LARGER."""
    return (
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
        "when initializing the engine."
    )


def short_kv_cache(length, need_gib, kv_gib, fits):
    """Less than one sequence of the model length fits."""
    return (
        f"ValueError: To serve at least one request with the models's max seq len ({length}), ({need_gib:.2f} GiB KV cache "
        f"is needed, which is larger than the available KV cache memory ({kv_gib:.2f} GiB). Based on the available memory, "
        f"the estimated maximum model length is {fits}. Try increasing `gpu_memory_utilization` or decreasing "
        "`max_model_len` when initializing the engine."
    )


def vllm_start_memory(free_gib, total_gib, utilization):
    """The card is not free enough when vLLM starts."""
    return (
        f"ValueError: Free memory on device ({free_gib:.2f}/{total_gib:.2f} GiB) on startup is less than desired GPU "
        f"memory utilization ({utilization}, {utilization * total_gib:.2f} GiB). Decrease GPU memory utilization or "
        "reduce GPU memory used by other processes."
    )


def nccl_watchdog(rank):
    """A rank that waited in a collective for one that died."""
    return (
        f"[rank{rank}]:[E605 06:28:13.408271257 ProcessGroupNCCL.cpp:633] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: WorkNCCL(SeqNum=2173, OpType=_ALLGATHER_BASE, NumelIn=58720256, NumelOut=234881024, Timeout(ms)=600000) "
        f"ran for 600043 milliseconds before timing out."
    )


def connection_closed(rank):
    """NCCL's line on a rank whose peer went away."""
    return f"node-0:{4100 + rank}:{4300 + rank} [{rank}] NCCL WARN socketProgress: Connection closed by remote peer 10.0.0.11<43117>"


def memory_line(head, allocated, reserved, used, total):
    """verl's log_gpu_memory_usage, utils/profiler/performance.py."""
    return (
        f"{head}, memory allocated (GB): {allocated:.2f}, memory reserved (GB): {reserved:.2f}, "
        f"device memory used/total (GB): {used:.2f}/{total:.2f}"
    )


def step_line(step, metrics):
    """verl's console logger: `step:1 - name:value - ...`, utils/logger/aggregate_logger.py."""
    return " - ".join([f"step:{step}", *(f"{name}:{value}" for name, value in metrics.items())])


def progress_bar(done, total, seconds):
    """tqdm's bar, width 10: `Training Progress:   2%|▏         | 1/60 [00:01<01:10,  1.19s/it]`."""
    share = done / total
    eighths = int(share * 80)
    part = " ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else ""
    bar = ("█" * (eighths // 8) + part).ljust(10)
    pace = max(seconds / done, 0.001) if done else 0.0
    rate = "?it/s" if not done else f"{pace:5.2f}s/it" if pace >= 1 else f"{1 / pace:5.2f}it/s"
    left = "?" if not done else _clock(pace * (total - done))
    return f"Training Progress: {share:4.0%}|{bar}| {done}/{total} [{_clock(seconds)}<{left}, {rate}]"


def _clock(seconds):
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
