"""oomctl from Python: training that survives a full GPU, and runs of the `oomctl` command.

Pure Python, no dependency. PyTorch is used if the program has imported it; this package never imports it. Without
PyTorch there is only the CPU, batches are never halved, and memory summaries are empty.
"""

from .batches import Batch, OOMHandler, Trained, adaptive_batch_training, retry_on_oom
from .devices import find_best_device
from .errors import PeerFailed, is_oom
from .memory import DeviceMemory, memory_summary, release_memory
from .program import Attempt, OomctlError, Run, submit
from .release import version

__version__ = version()

__all__ = [
    "Attempt",
    "Batch",
    "DeviceMemory",
    "OOMHandler",
    "OomctlError",
    "PeerFailed",
    "Run",
    "Trained",
    "__version__",
    "adaptive_batch_training",
    "find_best_device",
    "is_oom",
    "memory_summary",
    "release_memory",
    "retry_on_oom",
    "submit",
]
