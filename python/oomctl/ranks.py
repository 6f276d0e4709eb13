"""What the ranks of a distributed program tell each other: one number, over the host's network.

Not over NCCL: that would need memory of the GPU that has just run out of it, and would queue behind collectives
that wait for the rank that failed.
"""

from datetime import timedelta
from typing import Any, Dict, Tuple

from .errors import PeerFailed, torch

FINE, OUT_OF_MEMORY, FAILED = 0, 1, 2


_known: "Dict[float, Tuple[Ranks, Any]]" = {}


def ranks(timeout_s: float) -> "Ranks":
    """The ranks of this program. Called on all of them, since the first call makes a process group."""
    distributed = _distributed()
    world = None if distributed is None else distributed.group.WORLD
    known, of_world = _known.get(timeout_s, (None, None))
    if known is None or of_world is not world:
        known = Ranks(timeout_s)
        _known[timeout_s] = (known, world)
    return known


class Ranks:
    """The ranks of this program; one rank where torch.distributed is not initialised.

    `worst` is called on all ranks equally often.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._group: Any = None
        self._count = 1
        distributed = _distributed()
        if distributed is not None:
            self._count = distributed.get_world_size()
        if self._count > 1:
            self._group = distributed.new_group(
                backend="gloo", timeout=timedelta(seconds=timeout_s)
            )

    def worst(self, status: int) -> int:
        """The worst that any rank reports. Every rank learns the same."""
        if self._group is None:
            return status
        module, distributed = torch(), _distributed()
        reported = module.tensor([status], dtype=module.int32)
        try:
            distributed.all_reduce(reported, op=distributed.ReduceOp.MAX, group=self._group)
        except RuntimeError as error:
            raise PeerFailed(
                "not all ranks answered within {:.0f} s. One has died, or waits in a collective for a rank that ran out "
                "of memory: call check_ranks() before the function's collectives".format(
                    self.timeout_s
                )
            ) from error
        return int(reported.item())


def _distributed() -> Any:
    distributed = getattr(torch(), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed
