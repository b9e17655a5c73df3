"""Segments: memory of this process, populated when they are there."""

from __future__ import annotations

import ctypes
import threading
from operator import index
from typing import Callable, Iterable, Optional

from . import _errors as errors
from ._library import PROGRESS_FN, fail, library
from ._memory import Memory, Progress, Size, size_of

_KINDS = {"ism": 1, "dism": 2, "memfd": 3, "anon": 4, "hugetlb": 5, "posix": 6}
_PAGES = {"auto": 0, "4k": 1, "thp": 2, "2M": 3, "1G": 4, "best": 5}
#: Folios below a huge page.
FOLIOS = ("16k", "32k", "64k", "128k", "256k", "512k", "1M")
_PAGES.update({name: number for number, name in enumerate(FOLIOS, start=6)})
_PHASES = {1: "create", 2: "confirm", 3: "destroy"}


class Segment(Memory):
    """Memory that is populated, and locked if requested, when the call returns: all of it or nothing.

    It is created by several threads without the GIL. Ctrl-C cancels it and gives everything back.

    Args:
        size: Bytes, or text such as ``"8G"``; rounded up to whole pages.
        kind: ``memfd``, ``anon``, ``hugetlb``, ``ism``, ``dism`` or ``posix``.
        page: ``auto`` (the largest that are there now for all of it), ``4k``, ``thp``, ``2M`` or ``1G``; folios of
            ``16k`` to ``1M``; or ``best``, for each part the largest folios that are free without compaction.
        lock: Lock it in memory; subject to RLIMIT_MEMLOCK.
        nodes: NUMA nodes to allocate from.
        workers: At most so many threads; 16 by default, and no more than the CPUs that may be used.
        lenient: Accept smaller pages.
        name: Of a ``posix`` segment.
        progress: Called in this thread, about twenty times a second, with a :class:`Progress`; what it raises cancels.

    Raises:
        Short: A limit is too low: memory, a cgroup, RLIMIT_MEMLOCK, huge pages.
        Fragmented: Too few transparent huge pages were there.
        Invalid: Arguments that no machine or not this one can satisfy.
    """

    _what = "segment"

    def __init__(
        self,
        size: Size,
        *,
        kind: str = "memfd",
        page: str = "auto",
        lock: bool = False,
        nodes: Optional[Iterable[int]] = None,
        workers: Optional[int] = None,
        lenient: bool = False,
        name: Optional[str] = None,
        progress: Optional[Callable[[Progress], object]] = None,
    ) -> None:
        lib = library()
        size = size_of(size)
        options = lib.mw_options_new(size)
        try:
            lib.mw_options_set_kind(options, _choice("kind", kind, _KINDS))
            lib.mw_options_set_page(options, _choice("page", page, _PAGES))
            if lock:
                lib.mw_options_set_locked(options, True)
            if lenient:
                lib.mw_options_set_lenient(options, True)
            if workers is not None:
                lib.mw_options_set_workers(options, max(0, index(workers)))
            if name is not None:
                if "\0" in name:
                    raise errors.Invalid("a name has a zero byte")
                lib.mw_options_set_name(options, name.encode())
            if nodes is not None:
                numbers = [index(node) for node in nodes]
                if any(not 0 <= node < 1 << 32 for node in numbers):
                    raise errors.Invalid(f"invalid NUMA nodes {numbers}")
                array = (ctypes.c_uint32 * len(numbers))(*numbers)
                lib.mw_options_place_bind(options, array, len(numbers))
            handle = _create(options, size, progress)
        finally:
            lib.mw_options_free(options)
        self._handle = handle
        self.kind: str = lib.mw_kind_name(lib.mw_segment_kind(handle)).decode()
        #: The pages that it has: ``4k``, ``thp``, ``2M``, ``1G``, ``16k`` to ``1M``, or ``best``.
        self.page: str = lib.mw_page_name(lib.mw_segment_page(handle)).decode()
        #: Whether its pages stay in memory.
        self.locked: bool = lib.mw_segment_is_locked(handle)
        super().__init__(
            lib.mw_segment_address(handle),
            lib.mw_segment_bytes(handle),
            lambda: lib.mw_segment_destroy(handle),
        )

    @property
    def fds(self) -> "list[int]":
        """The descriptors of its files, in the order of their bytes; they belong to the segment."""
        self._open()
        lib = library()
        count = lib.mw_segment_stripes(self._handle)
        return [lib.mw_segment_stripe_fd(self._handle, index) for index in range(count)]


def _choice(what: str, name: str, known: "dict[str, int]") -> int:
    if name not in known:
        raise errors.Invalid(f"invalid {what} {name!r} (use {', '.join(known)})")
    return known[name]


#: A segment of this size is created in milliseconds, and Ctrl-C waits for it.
_SMALL = 64 << 20


def _create(
    options: int, size: int, progress: Optional[Callable[[Progress], object]]
) -> ctypes.c_void_p:
    if size < _SMALL and progress is None:
        return _create_small(options)
    creation = _Creation(options, is_watched=progress is not None)
    # In a thread of its own, which no signal interrupts: an exception in a callback of C would be lost. It inherits
    # CPUs and memory policy.
    thread = threading.Thread(target=creation.run, name="memwright")
    thread.start()
    try:
        while not creation.done.wait(_LOOK_S):
            if progress is not None and creation.latest is not None:
                progress(creation.latest)
    except BaseException:
        creation.cancel()
        thread.join()
        creation.discard()
        raise
    thread.join()
    return creation.segment()


def _create_small(options: int) -> ctypes.c_void_p:
    """Without a thread, progress and cancellation: they would take longer than the segment."""
    segment, error = ctypes.c_void_p(), ctypes.c_void_p()
    status = library().mw_segment_create(
        options, _NO_PROGRESS, None, ctypes.byref(segment), ctypes.byref(error)
    )
    if status != 0:
        fail(status, error)
    return segment


_NO_PROGRESS = PROGRESS_FN()

#: Between two looks at the progress.
_LOOK_S = 0.05


class _Creation:
    """A call of ``mw_segment_create``, and what it has come to."""

    def __init__(self, options: int, *, is_watched: bool) -> None:
        lib = library()
        self.done = threading.Event()
        self._is_watched = is_watched
        self.latest: Optional[Progress] = None
        self._options = options
        self._segment, self._error = ctypes.c_void_p(), ctypes.c_void_p()
        self._status = 0
        self._token = lib.mw_cancel_new()
        lib.mw_options_set_cancel(options, self._token)

    def run(self) -> None:
        # Without a callback, the library need not wait for the GIL.
        callback = PROGRESS_FN(self._report) if self._is_watched else _NO_PROGRESS
        self._status = library().mw_segment_create(
            self._options,
            callback,
            None,
            ctypes.byref(self._segment),
            ctypes.byref(self._error),
        )
        self.done.set()

    def _report(self, state: "ctypes._Pointer[ctypes.Structure]", _: object) -> int:
        now = state.contents
        self.latest = Progress(
            _PHASES.get(now.phase, "create"),
            now.done_bytes,
            now.total_bytes,
            now.elapsed_ns / 1e9,
            now.bytes_per_s,
        )
        return 0

    def cancel(self) -> None:
        library().mw_cancel_set(self._token)

    def discard(self) -> None:
        """It may have been finished before it was cancelled."""
        lib = library()
        lib.mw_cancel_free(self._token)
        lib.mw_segment_destroy(self._segment)
        lib.mw_error_free(self._error)

    def segment(self) -> ctypes.c_void_p:
        library().mw_cancel_free(self._token)
        if self._status != 0:
            fail(self._status, self._error)
        return self._segment
