"""Smaller batches after an out-of-memory, with the same number of samples a step."""

import functools
import inspect
import logging
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union, overload

from .errors import PeerFailed, forget, is_oom
from .memory import release_memory
from .ranks import FAILED, FINE, OUT_OF_MEMORY, ranks

_log = logging.getLogger("oomctl")

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


class Batch(NamedTuple):
    """What one step works on."""

    size: int
    """Samples in one forward and backward pass."""
    accumulation_steps: int
    """Passes before the optimizer's step."""


class _PeerOutOfMemory(PeerFailed):
    """Raised on the ranks that had memory enough."""


class OOMHandler:
    """Runs a function with the largest batch that fits.

    After an out-of-memory it halves the batch, down to `min_batch_size`, and doubles gradient accumulation, so each
    step still sees the same number of samples. If the half does not divide the first batch, it takes a divisor near
    the half; if there is none, the last pass is smaller (`split`).

    An attempt that did not fit is discarded on all ranks, also on those where it fitted. So the function starts with
    `zero_grad`, and what cannot be repeated, such as the optimizer's step, comes after `run`.

    With torch.distributed all ranks agree on the batch. `run` is then a collective: every rank makes the handler
    and calls `run` equally often. A function that has collectives (for example a DistributedDataParallel backward
    outside `no_sync`) calls `check_ranks` before them. Otherwise the other ranks wait in the collective for the rank
    that ran out of memory, until `timeout_s` is over.
    """

    def __init__(self, initial_batch_size: int = 128, min_batch_size: int = 1, timeout_s: float = 600.0) -> None:
        if not 1 <= min_batch_size <= initial_batch_size:
            raise ValueError(
                "min_batch_size is {}, and must be between 1 and initial_batch_size ({})".format(
                    min_batch_size, initial_batch_size
                )
            )
        self.effective_batch_size = initial_batch_size
        self.min_batch_size = min_batch_size
        self.batch_size = initial_batch_size
        self.retries = 0
        self._ranks = ranks(timeout_s)

    def __repr__(self) -> str:
        return "OOMHandler(batch_size={}, accumulation_steps={}, min_batch_size={}, retries={})".format(
            self.batch_size, self.accumulation_steps, self.min_batch_size, self.retries
        )

    @property
    def accumulation_steps(self) -> int:
        """Passes that make up the effective batch."""
        return -(-self.effective_batch_size // self.batch_size)

    @property
    def batch(self) -> Batch:
        """Batch and accumulation now."""
        return Batch(self.batch_size, self.accumulation_steps)

    def reduce(self) -> bool:
        """Makes the batch smaller; False if it is at its minimum."""
        smaller = self._smaller()
        if smaller is None:
            return False
        _log.warning("a batch of %d does not fit on the GPU; trying %d", self.batch_size, smaller)
        self.batch_size = smaller
        self.retries += 1
        return True

    def _smaller(self) -> Optional[int]:
        if self.batch_size <= self.min_batch_size:
            return None
        half = max(self.batch_size // 2, self.min_batch_size)
        candidates = range(half, max(self.min_batch_size, half // 2 + 1) - 1, -1)
        return next((size for size in candidates if self.effective_batch_size % size == 0), half)

    def split(self, samples: Any) -> Iterator[Any]:
        """Slices of an effective batch (a list, a tensor), each at most `batch_size` long."""
        for start in range(0, len(samples), self.batch_size):
            yield samples[start : start + self.batch_size]

    def check_ranks(self) -> None:
        """Call it before a collective: it ends this attempt if any rank ran out of memory."""
        worst = self._ranks.worst(FINE)
        if worst == OUT_OF_MEMORY:
            raise _PeerOutOfMemory("another rank ran out of GPU memory")
        if worst == FAILED:
            raise PeerFailed("another rank failed")

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Calls `function(batch, *args, **kwargs)` with a Batch until it fits, and returns what it returns.

        Other errors pass through. When the smallest batch does not fit, the out-of-memory itself is raised.
        """
        while True:
            result, error = self._attempt(function, args, kwargs)
            if error is None:
                return result  # type: ignore[return-value]
            forget(error)
            if not self.reduce():
                raise error
            # The error is the last that holds tensors of the attempt.
            del error, result
            release_memory()

    def _attempt(
        self, function: Callable[..., T], args: Sequence[Any], kwargs: Any
    ) -> Tuple[Optional[T], Optional[Exception]]:
        """The result, or the out-of-memory of any rank. All ranks get the same kind of answer."""
        result: Optional[T] = None
        error: Optional[Exception] = None
        try:
            result = function(self.batch, *args, **kwargs)
        except _PeerOutOfMemory as peer:
            return None, peer
        except PeerFailed:
            raise
        except Exception as caught:
            if not is_oom(caught):
                # The others would wait for this rank.
                self._ranks.worst(FAILED)
                raise
            error = caught
        try:
            worst = self._ranks.worst(FINE if error is None else OUT_OF_MEMORY)
        except PeerFailed as lost:
            raise (error or lost) from lost.__cause__
        if worst == FAILED:
            raise error or PeerFailed("another rank failed")
        if worst == OUT_OF_MEMORY and error is None:
            error = _PeerOutOfMemory("another rank ran out of GPU memory")
        return result, error


class Trained(NamedTuple):
    """What adaptive_batch_training gives back."""

    result: Any
    """What the function returned."""
    batch_size: int
    """The batch that fitted."""
    accumulation_steps: int
    """Passes before the optimizer's step."""


def adaptive_batch_training(
    train_fn: Callable[..., Any], initial_batch_size: int = 128, min_batch_size: int = 1, timeout_s: float = 600.0
) -> Trained:
    """Calls `train_fn` with the largest batch that fits.

    Calls `train_fn(batch_size)` or, if it has that parameter, `train_fn(batch_size, accumulation_steps)`. Each
    attempt is a new call, so the function must make model and optimizer itself, or load a checkpoint.
    """
    handler = OOMHandler(initial_batch_size, min_batch_size, timeout_s)
    takes_steps = "accumulation_steps" in inspect.signature(train_fn).parameters

    def train(batch: Batch) -> Any:
        if takes_steps:
            return train_fn(batch.size, accumulation_steps=batch.accumulation_steps)
        return train_fn(batch.size)

    result = handler.run(train)
    return Trained(result, handler.batch_size, handler.accumulation_steps)


@overload
def retry_on_oom(max_retries: Function) -> Function: ...


@overload
def retry_on_oom(
    max_retries: int = 3, min_batch_size: int = 1, timeout_s: float = 600.0
) -> Callable[[Function], Function]: ...


def retry_on_oom(
    max_retries: Union[int, Callable[..., Any]] = 3, min_batch_size: int = 1, timeout_s: float = 600.0
) -> Any:
    """Decorator, `@retry_on_oom` or `@retry_on_oom(max_retries=3)`: repeats the call after an out-of-memory.

    If the function has a parameter `batch_size`, each retry halves it, down to `min_batch_size`, and doubles a
    parameter `accumulation_steps`. Otherwise the call is repeated unchanged, which helps against fragmentation and
    against memory that other processes hold for a moment.
    """
    if callable(max_retries):
        return retry_on_oom()(max_retries)
    retries = max_retries

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return _retried(function, args, kwargs, retries, min_batch_size, timeout_s)

        return wrapper  # type: ignore[return-value]

    return decorate


def _retried(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    max_retries: int,
    min_batch_size: int,
    timeout_s: float,
) -> Any:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    size = given.get("batch_size")
    sized = isinstance(size, int)
    if isinstance(size, int):
        handler = OOMHandler(size, min(min_batch_size, size), timeout_s)
    else:
        handler = OOMHandler(1, 1, timeout_s)
    steps = given.get("accumulation_steps")
    for retry in range(max_retries + 1):
        if sized:
            given["batch_size"] = handler.batch_size
            if isinstance(steps, int):
                given["accumulation_steps"] = steps * handler.accumulation_steps
        result, error = handler._attempt(lambda _: function(*bound.args, **bound.kwargs), (), {})
        if error is None:
            return result
        forget(error)
        if retry == max_retries or (sized and not handler.reduce()):
            raise error
        del error, result
        release_memory()
