"""Memory of the GPUs, as PyTorch's allocator counts it."""

import gc
from typing import Any, List, NamedTuple

from .errors import torch

_GIB = 1 << 30


class DeviceMemory(NamedTuple):
    """Bytes of one GPU in this process."""

    device: str
    allocated: int
    """Tensors that live now."""
    reserved: int
    """What the allocator has taken from the driver, tensors and cache."""
    max_allocated: int
    """Tensors at their peak."""

    def __str__(self) -> str:
        return "{}: {:.2f} GiB allocated, {:.2f} GiB reserved, {:.2f} GiB at most".format(
            self.device,
            self.allocated / _GIB,
            self.reserved / _GIB,
            self.max_allocated / _GIB,
        )


def memory_summary() -> List[DeviceMemory]:
    """The GPUs that this process has used, as a list of DeviceMemory; empty without PyTorch or CUDA."""
    cuda = _cuda()
    if cuda is None:
        return []
    devices = (
        DeviceMemory(
            "cuda:{}".format(index),
            cuda.memory_allocated(index),
            cuda.memory_reserved(index),
            cuda.max_memory_allocated(index),
        )
        for index in range(cuda.device_count())
    )
    return [memory for memory in devices if memory.reserved or memory.max_allocated]


def release_memory() -> None:
    """Collects cycles that hold tensors, then gives the allocator's cache back to the driver."""
    gc.collect()
    cuda = _cuda()
    if cuda is not None:
        cuda.empty_cache()


def _cuda() -> Any:
    """torch.cuda, once the program has used it: asking an unused one would make a context."""
    cuda = getattr(torch(), "cuda", None)
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None
