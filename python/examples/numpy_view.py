"""An array of numpy on memory that is populated, and locked or on huge pages where requested, without a copy.

    python numpy_view.py [SIZE] [PAGE]
"""

import sys
import tempfile

import numpy

import pymemwright as mw


def main(size: str = "256M", page: str = "auto") -> None:
    with mw.Segment(size, page=page) as segment:
        array = numpy.frombuffer(segment.view, dtype=numpy.float32)
        assert array.ctypes.data == segment.address
        print(f"{array.size} floats at {array.ctypes.data:#x} on {segment.page} pages, no copy")

        array[:] = 1.5
        print(f"sum through a second view: {numpy.frombuffer(segment.view, dtype=numpy.float32).sum():.0f}")

        # A file is read into the array, without a bytes object in between.
        with tempfile.TemporaryFile() as file:
            numpy.arange(1000, dtype=numpy.float32).tofile(file)
            file.seek(0)
            file.readinto(segment.view[:4000])
        print(f"read from a file: {array[:4]} ... {array[999]}")

    # The memory is given back with its last view.
    print(f"segment closed: {segment.closed}; the array is valid: {array[999]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
