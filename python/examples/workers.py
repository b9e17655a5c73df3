"""Worker processes on one lease of a pool: each writes its part of an array, and nothing is copied or pickled.

    python workers.py [WORKERS] [SIZE]

A lease is inherited by fork. It returns to the pool when the last process that maps it unmaps it or ends, however it
ends.
"""

import multiprocessing
import sys

import numpy
from private_pool import private_pool

import pymemwright as mw


def work(array: "numpy.ndarray", worker: int, workers: int) -> None:
    numpy.array_split(array, workers)[worker][:] = worker + 1


def main(workers: int, size: str) -> None:
    # A process that is spawned instead has no mapping of the lease.
    fork = multiprocessing.get_context("fork")
    with private_pool("shared", size) as socket:
        with mw.attach("shared", size, wait=60, socket=socket) as lease:
            array = numpy.frombuffer(lease.view, dtype=numpy.uint32)
            processes = [fork.Process(target=work, args=(array, worker, workers)) for worker in range(workers)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
            for value, count in zip(*numpy.unique(array, return_counts=True)):
                print(f"worker {value} wrote {count} numbers")
            del array


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 4, given[1] if given[1:] else "64M")
