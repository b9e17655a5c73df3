"""The C library, loaded when it is used first: importing the package costs nothing."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, NoReturn

from . import _errors as errors

#: Names a library other than that of the package.
VARIABLE = "MEMWRIGHT_LIBRARY"

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t


class ProgressStruct(ctypes.Structure):
    """``mw_progress``"""

    _fields_ = [
        ("phase", ctypes.c_int),
        ("done_bytes", _SIZE),
        ("total_bytes", _SIZE),
        ("elapsed_ns", ctypes.c_uint64),
        ("bytes_per_s", ctypes.c_double),
    ]


class ShortageStruct(ctypes.Structure):
    """``mw_shortage``"""

    _fields_ = [
        ("limit", ctypes.c_int),
        ("asked_bytes", ctypes.c_uint64),
        ("had_bytes", ctypes.c_uint64),
        ("missing_bytes", ctypes.c_uint64),
        ("page_bytes", ctypes.c_uint64),
        ("cgroup", ctypes.c_char_p),
        ("remedy", ctypes.c_char_p),
        ("requested_bytes", ctypes.c_uint64),
        ("available_bytes", ctypes.c_uint64),
    ]


PROGRESS_FN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ProgressStruct), _P)

#: Functions with their result and their arguments, as in memwright.h.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "mw_version": (ctypes.c_char_p, []),
    "mw_error_status": (ctypes.c_int, [_P]),
    "mw_error_text": (ctypes.c_char_p, [_P]),
    "mw_error_errno": (ctypes.c_int, [_P]),
    "mw_error_shortage": (ctypes.POINTER(ShortageStruct), [_P]),
    "mw_error_free": (None, [_P]),
    "mw_options_new": (_P, [_SIZE]),
    "mw_options_set_kind": (ctypes.c_int, [_P, ctypes.c_int]),
    "mw_options_set_page": (ctypes.c_int, [_P, ctypes.c_int]),
    "mw_options_set_lenient": (ctypes.c_int, [_P, ctypes.c_int]),
    "mw_options_set_locked": (ctypes.c_int, [_P, ctypes.c_int]),
    "mw_options_set_workers": (ctypes.c_int, [_P, _SIZE]),
    "mw_options_set_name": (ctypes.c_int, [_P, ctypes.c_char_p]),
    "mw_options_place_bind": (ctypes.c_int, [_P, ctypes.POINTER(ctypes.c_uint32), _SIZE]),
    "mw_options_set_cancel": (ctypes.c_int, [_P, _P]),
    "mw_cancel_new": (_P, []),
    "mw_cancel_set": (None, [_P]),
    "mw_cancel_free": (None, [_P]),
    "mw_options_free": (None, [_P]),
    "mw_segment_create": (
        ctypes.c_int,
        [_P, PROGRESS_FN, _P, ctypes.POINTER(_P), ctypes.POINTER(_P)],
    ),
    "mw_segment_address": (_P, [_P]),
    "mw_segment_bytes": (_SIZE, [_P]),
    "mw_segment_kind": (ctypes.c_int, [_P]),
    "mw_segment_page": (ctypes.c_int, [_P]),
    "mw_segment_is_locked": (ctypes.c_bool, [_P]),
    "mw_segment_stripes": (_SIZE, [_P]),
    "mw_segment_stripe_fd": (ctypes.c_int, [_P, _SIZE]),
    "mw_segment_destroy": (None, [_P]),
    "mw_kind_name": (ctypes.c_char_p, [ctypes.c_int]),
    "mw_page_name": (ctypes.c_char_p, [ctypes.c_int]),
    "mw_pool_attach": (
        ctypes.c_int,
        [
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_uint64,
            ctypes.c_char_p,
            ctypes.c_uint64,
            ctypes.POINTER(_P),
            ctypes.POINTER(_P),
        ],
    ),
    "mw_pool_address": (_P, [_P]),
    "mw_pool_bytes": (_SIZE, [_P]),
    "mw_pool_is_kept": (
        ctypes.c_bool,
        [_P, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_bool)],
    ),
    "mw_pool_mark_consistent": (ctypes.c_int, [_P]),
    "mw_pool_detach": (None, [_P]),
}


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library. Its functions release the GIL.

    Raises:
        ImportError: There is none.
    """
    own = os.path.join(os.path.dirname(__file__), "libmemwright.so")
    named = os.environ.get(VARIABLE)
    names = [named] if named else [own, "libmemwright.so.0"]
    problems = []
    for name in names:
        try:
            found = ctypes.CDLL(name)
        except OSError as error:
            problems.append(str(error))
            continue
        for function, (result, arguments) in _FUNCTIONS.items():
            getattr(found, function).restype = result
            getattr(found, function).argtypes = arguments
        return found
    raise ImportError(
        f"libmemwright could not be loaded: {'; '.join(problems)}; install memwright, or name the library with {VARIABLE}"
    )


def version() -> str:
    """The version of the library."""
    return library().mw_version().decode()


_BY_STATUS = {
    1: errors.Invalid,
    3: errors.Cancelled,
    4: errors.Invalid,
    5: errors.Fragmented,
    9: errors.NoServer,
    10: errors.Refused,
    11: errors.NotReady,
}


def fail(status: int, error: ctypes.c_void_p) -> NoReturn:
    """Raises what an error of the library says, and frees it."""
    lib = library()
    try:
        text = lib.mw_error_text(error).decode(errors="replace")
        shortage = lib.mw_error_shortage(error)
        number = lib.mw_error_errno(error)
        raised: Exception
        if shortage:
            found = shortage.contents
            raised = errors.Short(
                text,
                requested=found.requested_bytes,
                available=found.available_bytes,
                missing=found.missing_bytes,
                remedy=found.remedy.decode() if found.remedy else None,
                cgroup=found.cgroup.decode(errors="replace") if found.cgroup else None,
            )
        elif status in _BY_STATUS:
            raised = _BY_STATUS[status](text)
        elif number:
            raised = errors.SystemCallFailed(text, number)
        else:
            raised = errors.MemwrightError(text)
    finally:
        lib.mw_error_free(error)
    raise raised
