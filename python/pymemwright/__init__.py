"""Large memory for Python, by memwright's library.

``Segment`` allocates memory in parallel, locked or on huge pages, all or nothing. ``attach`` leases populated memory
from a pool, which outlives this process. Both give their memory as a writable ``memoryview`` without a copy. ``check``
and ``preflight`` ask the ``memwright`` program whether the machine can provide it. ``Recording`` reads what its recorder
has recorded.
"""

# Modules of Python that only some calls need are imported in these calls: a third of the time of this import.
from ._ask import Preflight, check, preflight
from ._cuda import CudaRegistration, register_cuda
from ._errors import (
    Cancelled,
    CudaError,
    Fragmented,
    Invalid,
    MemwrightError,
    NoCuda,
    NoServer,
    NotReady,
    Refused,
    Short,
    SystemCallFailed,
)
from ._library import version
from ._memory import Chunk, Progress
from ._pool import Lease, attach
from ._recording import Recording
from ._segment import Segment

__all__ = [
    "Cancelled",
    "Chunk",
    "CudaError",
    "CudaRegistration",
    "Fragmented",
    "Invalid",
    "Lease",
    "MemwrightError",
    "NoCuda",
    "NoServer",
    "NotReady",
    "Preflight",
    "Progress",
    "Recording",
    "Refused",
    "Segment",
    "Short",
    "SystemCallFailed",
    "attach",
    "check",
    "preflight",
    "register_cuda",
    "version",
]
