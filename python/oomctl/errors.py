"""Which errors say that a GPU is full."""

import sys
import traceback
from typing import Any, Optional, Tuple

# What libraries print where an allocation of theirs failed. cuBLAS and cuDNN allocate outside PyTorch's
# allocator, so they say it in words of their own.
_ALLOCATION_FAILED = (
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "HIPBLAS_STATUS_ALLOC_FAILED",
)
# After a collective has failed its communicator is of no use any more: no retry in this process helps.
_NOT_TO_BE_RETRIED = ("NCCL", "ProcessGroup")


class PeerFailed(RuntimeError):
    """Another rank gave up, so this one does."""


def torch() -> Any:
    """PyTorch if the program has imported it, else None."""
    return sys.modules.get("torch")


def is_oom(error: BaseException) -> bool:
    """True if a GPU was full, in the words of PyTorch, CUDA, HIP, cuBLAS or cuDNN. Host memory is another matter."""
    if isinstance(error, _oom_types()):
        return True
    if not isinstance(error, RuntimeError) or isinstance(error, PeerFailed):
        return False
    text = str(error)
    if any(word in text for word in _NOT_TO_BE_RETRIED):
        return False
    return any(word in text for word in _ALLOCATION_FAILED)


def _oom_types() -> Tuple[type, ...]:
    module = torch()
    homes = (module, getattr(module, "cuda", None))
    found = (getattr(home, "OutOfMemoryError", None) for home in homes)
    return tuple(kind for kind in found if isinstance(kind, type))


def forget(caught: BaseException) -> None:
    """Frees what the frames of an error hold: the tensors of the failed attempt live in its traceback."""
    seen = set()
    error: Optional[BaseException] = caught
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
