"""Registers memory with the CUDA runtime, so that a GPU can copy from it directly."""

from __future__ import annotations

import ctypes
import os
from typing import Callable, Optional

from . import _errors as errors
from ._memory import Chunk, Memory, Size

#: Names a runtime library other than those that are looked for.
VARIABLE = "MEMWRIGHT_CUDART"

_NAMES = ["libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"]

#: cudaHostRegisterPortable: pinned for all contexts.
_PORTABLE = 1


class CudaRegistration:
    """Memory that is registered. It is unregistered by ``close`` or at the end of a ``with`` block."""

    def __init__(self, runtime: ctypes.CDLL, memory: Memory) -> None:
        self._runtime = runtime
        # A view keeps the memory as long as it is registered.
        self._view: Optional[memoryview] = memory.view
        self.chunks: "list[Chunk]" = []

    def close(self) -> None:
        """Unregisters all of it; closing twice is allowed.

        Raises:
            CudaError: The runtime refused; everything else is unregistered.
        """
        failed = 0
        while self.chunks:
            chunk = self.chunks.pop()
            failed = self._runtime.cudaHostUnregister(ctypes.c_void_p(chunk.address)) or failed
        self._view = None
        if failed:
            raise _error(self._runtime, "cudaHostUnregister", failed)

    def __enter__(self) -> "CudaRegistration":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def register_cuda(
    memory: Memory,
    *,
    chunk: Size = 64 << 30,
    align: Size = 1,
    progress: Optional[Callable[[int, int], object]] = None,
) -> CudaRegistration:
    """Registers memory in chunks, since one call for 512 GiB or more fails on some drivers.

    Args:
        chunk: Bytes of a chunk, or text such as ``"64G"``.
        align: Each chunk but the last is a multiple of this: the size of a row, so that none crosses a border.
        progress: Called after each chunk with the bytes that are registered and the bytes in all.

    Raises:
        NoCuda: There is no CUDA runtime.
        CudaError: A chunk was refused; those before it are unregistered again, and the pending error is cleared.
    """
    runtime = _runtime()
    registration = CudaRegistration(runtime, memory)
    total = memory.nbytes
    try:
        for part in memory.chunks(chunk, align):
            status = runtime.cudaHostRegister(
                ctypes.c_void_p(part.address), ctypes.c_size_t(part.length), _PORTABLE
            )
            if status != 0:
                raise _error(runtime, f"cudaHostRegister of {part.length} bytes at {part.offset}", status)
            registration.chunks.append(part)
            if progress is not None:
                progress(part.offset + part.length, total)
    except BaseException:
        try:
            registration.close()
        except errors.CudaError:
            pass
        raise
    return registration


def _error(runtime: ctypes.CDLL, what: str, status: int) -> errors.CudaError:
    """The error in words. It stays pending in the runtime until it is asked for, and would be blamed on the next call."""
    runtime.cudaGetLastError()
    runtime.cudaGetErrorString.restype = ctypes.c_char_p
    words = runtime.cudaGetErrorString(status)
    text = words.decode(errors="replace") if words else "unknown error"
    return errors.CudaError(f"{what}: {text} ({status})", status)


def _runtime() -> ctypes.CDLL:
    import ctypes.util

    named = os.environ.get(VARIABLE)
    found = ctypes.util.find_library("cudart") if named is None else None
    names = [named] if named else _NAMES + ([found] if found else [])
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise errors.NoCuda(
        f"no CUDA runtime: none of {', '.join(names)} could be loaded; name it with {VARIABLE}"
    )
