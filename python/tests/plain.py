"""The calls of the library that the package takes, without the package's objects: what it is compared with."""

import ctypes

from pymemwright._library import PROGRESS_FN, library


def create(size: int) -> None:
    """Creates a segment and destroys it."""
    lib = library()
    options = lib.mw_options_new(size)
    segment, error = ctypes.c_void_p(), ctypes.c_void_p()
    lib.mw_segment_create(options, PROGRESS_FN(), None, ctypes.byref(segment), ctypes.byref(error))
    lib.mw_options_free(options)
    if not segment:
        raise MemoryError(lib.mw_error_text(error).decode())
    lib.mw_segment_destroy(segment)
