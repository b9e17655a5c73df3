"""Memory that lives as long as anybody has a view of it.

The address is wrapped in a ctypes array, of which every view holds a reference: a memoryview, a slice of it, a numpy
array on top of it. What frees the memory is the end of that array. A view that outlives its segment is therefore valid.
"""

from __future__ import annotations

import ctypes
import re
import threading
import weakref
from typing import Callable, Iterator, NamedTuple, Optional, Union

from . import _errors as errors

#: A size: bytes, or text such as ``"8G"``.
Size = Union[int, str]

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_SIZE = re.compile(r"(\d{1,18})\s*([KMGTP]?)(?:i?B)?", re.IGNORECASE)
_MOST = 1 << 63


def size_of(size: Size) -> int:
    """A size in bytes.

    Raises:
        TypeError: It is neither a whole number nor text.
        ValueError: It is no positive number of bytes below 2**63.
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip())
        if match is None:
            raise errors.Invalid(f"invalid size {size!r} (use for example 8G, 512M or a number of bytes)")
        size = int(match.group(1)) << _UNITS[match.group(2).upper()]
    elif isinstance(size, bool) or not hasattr(type(size), "__index__"):
        raise TypeError(f"a size is a whole number of bytes or text such as '8G', not {type(size).__name__}")
    size = size.__index__()
    if not 0 < size < _MOST:
        raise errors.Invalid(f"invalid size {size}: it must be positive and below 2**63 bytes")
    return size


class Progress(NamedTuple):
    """How far an operation is."""

    #: ``create``, ``confirm`` or ``destroy``; each counts from 0 bytes.
    phase: str
    done: int
    total: int
    #: Since the phase began.
    seconds: float
    bytes_per_second: float


class Chunk(NamedTuple):
    """A part of memory, for calls that take an address and a length in bytes."""

    address: int
    offset: int
    length: int


class _Owned:
    """Ends with the array that refers to it."""


class Memory:
    """What segments and leases have in common."""

    _what = "memory"

    def __init__(self, address: int, length: int, release: Callable[[], None]) -> None:
        array = (ctypes.c_ubyte * length).from_address(address)
        # An array of ctypes cannot be referred to weakly. What it alone refers to ends with it, and costs less than a
        # class for each array (2 us instead of 18 us).
        array._owned = owned = _Owned()  # type: ignore[attr-defined]
        self._address = address
        self._length = length
        self._array: Optional[ctypes.Array[ctypes.c_ubyte]] = array
        self._lock = threading.Lock()
        # Not at the end of the interpreter: somebody may have a view then, and the kernel frees it anyway.
        self._alive = weakref.finalize(owned, release)
        self._alive.atexit = False

    def _open(self) -> "ctypes.Array[ctypes.c_ubyte]":
        array = self._array
        if array is None:
            raise ValueError(f"the {self._what} is closed")
        return array

    @property
    def closed(self) -> bool:
        """Whether it was closed. Views that exist stay valid."""
        return self._array is None

    @property
    def address(self) -> int:
        """The address of the first byte, aligned to a page."""
        self._open()
        return self._address

    @property
    def nbytes(self) -> int:
        """The size in bytes, rounded up to whole pages."""
        self._open()
        return self._length

    def __len__(self) -> int:
        return self.nbytes

    @property
    def view(self) -> memoryview:
        """All of it as writable bytes, without a copy: for ``numpy.frombuffer``, ``torch.frombuffer``, ``readinto``."""
        return memoryview(self._open()).cast("B")

    def __buffer__(self, flags: int) -> memoryview:
        """``memoryview(memory)`` from Python 3.12 on; before, use ``view``."""
        return self.view

    def chunks(self, most: Size = 64 << 30, align: Size = 1) -> Iterator[Chunk]:
        """Parts of at most ``most`` bytes in order, each but the last a multiple of ``align``.

        Some drivers fail to register a region of 512 GiB or more in one call.
        """
        most, align = size_of(most), size_of(align)
        step = most // align * align
        if step == 0:
            raise errors.Invalid(f"chunks of {most} bytes hold no {align} bytes")
        address, length = self.address, self.nbytes
        for offset in range(0, length, step):
            yield Chunk(address + offset, offset, min(step, length - offset))

    def close(self) -> None:
        """Gives the memory back. Closing twice is allowed.

        Raises:
            BufferError: Somebody has a view of it. It is closed nevertheless, and given back with the last view.
        """
        with self._lock:
            array, self._array = self._array, None
        if array is None:
            return
        del array
        if self._alive.alive:
            raise BufferError(f"views of the {self._what} exist; it is given back with the last of them")

    def __enter__(self) -> "Memory":
        self._open()
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.close()
        except BufferError:
            # A view that the block has made lives on; so does its memory.
            pass

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._length} bytes at {self._address:#x}"
        return f"<{type(self).__name__} {state}>"

