"""The GPU with the most free memory.

Asked of the driver (NVML), because asking CUDA makes a context on every GPU that is asked, some hundred MiB each.
"""

import ctypes
import os
from typing import Any, List, NamedTuple, Optional

from .errors import torch

_MIB = 1 << 20


def find_best_device(min_memory_mib: float = 4000) -> str:
    """`cuda:N` of the visible GPU with the most free memory, if that is at least `min_memory_mib` MiB; else `cpu`."""
    free = _free_by_driver()
    if free is None:
        free = _free_by_cuda()
    if not free:
        return "cpu"
    best = max(range(len(free)), key=lambda index: free[index])
    return "cuda:{}".format(best) if free[best] >= min_memory_mib * _MIB else "cpu"


class _Gpu(NamedTuple):
    uuid: str
    name: str
    free: int


def _free_by_driver() -> Optional[List[int]]:
    """Free bytes of the visible GPUs in CUDA's order; None if the driver does not answer or the order is unknown."""
    try:
        gpus = _gpus()
    except (OSError, AttributeError, RuntimeError):
        return None
    chosen = _visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return None if chosen is None else [gpu.free for gpu in chosen]


def _visible(gpus: List[_Gpu], wanted: Optional[str]) -> Optional[List[_Gpu]]:
    """The GPUs that CUDA shows, in its order. It stops at the first word that names none."""
    # CUDA puts the fastest first unless told otherwise, which only GPUs of one kind leave in NVML's order.
    ordered = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) <= 1
    if wanted is None:
        return gpus if ordered else None
    chosen: List[_Gpu] = []
    for word in (word.strip() for word in wanted.split(",")):
        if word.startswith("MIG-"):
            return None
        if word.isdigit():
            if not ordered:
                return None
            found = gpus[int(word) : int(word) + 1]
        else:
            found = [gpu for gpu in gpus if word.startswith("GPU-") and gpu.uuid.startswith(word)]
        if len(found) != 1 or found[0] in chosen:
            break
        chosen.append(found[0])
    return chosen


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def _gpus() -> List[_Gpu]:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    _ask(nvml.nvmlInit_v2)
    try:
        count = ctypes.c_uint()
        _ask(nvml.nvmlDeviceGetCount_v2, ctypes.byref(count))
        handles = (_open(nvml, index) for index in range(count.value))
        return [_gpu(nvml, handle) for handle in handles if handle is not None]
    finally:
        nvml.nvmlShutdown()


def _open(nvml: Any, index: int) -> Optional[ctypes.c_void_p]:
    """None for a GPU of another job: inside a device cgroup NVML counts it, and CUDA numbers without it."""
    handle = ctypes.c_void_p()
    code = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
    return handle if code == 0 else None


def _gpu(nvml: Any, handle: ctypes.c_void_p) -> _Gpu:
    memory = _Memory()
    _ask(nvml.nvmlDeviceGetMemoryInfo, handle, ctypes.byref(memory))
    texts = []
    for call in (nvml.nvmlDeviceGetUUID, nvml.nvmlDeviceGetName):
        text = ctypes.create_string_buffer(96)
        _ask(call, handle, text, ctypes.c_uint(96))
        texts.append(text.value.decode("utf-8", "replace"))
    return _Gpu(texts[0], texts[1], memory.free)


def _ask(call: Any, *arguments: Any) -> None:
    code = call(*arguments)
    if code != 0:
        raise RuntimeError("NVML answers {}".format(code))


def _free_by_cuda() -> List[int]:
    """The same by CUDA itself: ROCm, MIG devices, several kinds of GPU in one machine."""
    cuda = getattr(torch(), "cuda", None)
    if cuda is None or not cuda.is_available():
        return []
    return [cuda.mem_get_info(index)[0] for index in range(cuda.device_count())]
