"""Leases: memory of a pool, populated before it is asked for."""

from __future__ import annotations

import ctypes
from typing import Optional

from . import _errors as errors
from ._library import fail, library
from ._memory import Memory, Size, size_of


class Lease(Memory):
    """Memory leased from a pool: see :func:`attach`."""

    _what = "lease"

    def __init__(self, handle: ctypes.c_void_p) -> None:
        lib = library()
        self._handle = handle
        generation, dirty = ctypes.c_uint64(), ctypes.c_bool()
        kept = lib.mw_pool_is_kept(handle, ctypes.byref(generation), ctypes.byref(dirty))
        #: Whether it has contents that were kept; otherwise it is zero.
        self.kept: bool = kept
        #: How often kept contents were leased before.
        self.generation: int = generation.value if kept else 0
        #: Whether kept contents were not marked consistent, as after a kill.
        self.dirty: bool = bool(kept and dirty.value)
        super().__init__(
            lib.mw_pool_address(handle), lib.mw_pool_bytes(handle), lambda: lib.mw_pool_detach(handle)
        )

    def mark_consistent(self) -> None:
        """Marks the contents as consistent. It cannot be undone: call it last.

        Raises:
            MemwrightError: The server of this lease is gone.
        """
        self._open()
        status = library().mw_pool_mark_consistent(self._handle)
        if status != 0:
            raise errors.MemwrightError("the pool server of this lease no longer exists")


def attach(
    pool: str,
    size: Size,
    *,
    keep: Optional[str] = None,
    wait: float = 0.0,
    socket: Optional[str] = None,
) -> Lease:
    """Leases memory from a pool: populated, and locked as far as this process may lock memory.

    Args:
        pool: Its name.
        size: Bytes, or text such as ``"8G"``; rounded up to whole stripes of the pool.
        keep: A name under which the contents are kept when the memory is given back, and may have been kept before.
        wait: Seconds to wait for memory that is being populated or returned, and for a server that restarts.
        socket: The server's socket; by default /run/memwright-pool/pool.sock.

    Raises:
        NoServer: No server responds.
        Refused: The pool does not exist, is full or too small, or may not be used.
        NotReady: Its memory was not ready in time.
    """
    lib = library()
    if not 0 <= wait < 1e9:
        raise errors.Invalid(f"invalid wait {wait!r} (use seconds)")
    texts = [text.encode() if text is not None else None for text in (socket, pool, keep)]
    if any(text is not None and b"\0" in text for text in texts):
        raise errors.Invalid("a name has a zero byte")
    memory, error = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        status = lib.mw_pool_attach(
            texts[0],
            texts[1],
            size_of(size),
            texts[2],
            int(wait * 1e9),
            ctypes.byref(memory),
            ctypes.byref(error),
        )
    except BaseException:
        lib.mw_pool_detach(memory)
        lib.mw_error_free(error)
        raise
    if status != 0:
        fail(status, error)
    return Lease(memory)
