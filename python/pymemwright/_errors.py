"""What can go wrong, by kind."""

from __future__ import annotations

from typing import Optional


class MemwrightError(Exception):
    """An error of memwright: its text says what was requested, what was found, and what to do."""


class Invalid(MemwrightError, ValueError):
    """An argument is invalid, or arguments contradict each other or the machine."""


class Short(MemwrightError, MemoryError):
    """A limit is below what was requested. Sizes are in bytes."""

    def __init__(
        self,
        text: str,
        *,
        requested: int = 0,
        available: int = 0,
        missing: int = 0,
        remedy: Optional[str] = None,
        cgroup: Optional[str] = None,
    ) -> None:
        super().__init__(text)
        self.requested = requested
        self.available = available
        self.missing = missing
        #: A command, a setting or a limit to raise.
        self.remedy = remedy
        #: The memory cgroup whose limit it is.
        self.cgroup = cgroup


class Cancelled(MemwrightError):
    """The operation was cancelled, and everything was given back."""


class Fragmented(MemwrightError, MemoryError):
    """There were fewer transparent huge pages than requested: memory is fragmented."""


class SystemCallFailed(MemwrightError, OSError):
    """A system call failed for a reason that no limit explains; ``errno`` has the kernel's number."""

    def __init__(self, text: str, errno: int = 0) -> None:
        OSError.__init__(self, errno, text)


class NoServer(MemwrightError, ConnectionError):
    """No pool server responds."""


class Refused(MemwrightError, PermissionError):
    """The pool does not exist, is full or too small, or may not be used by this user."""


class NotReady(MemwrightError, TimeoutError):
    """The memory of the pool was not ready in time."""


class NoCuda(MemwrightError):
    """There is no CUDA runtime library on this machine."""


class CudaError(MemwrightError):
    """A call of the CUDA runtime failed; ``code`` is its error number."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code
