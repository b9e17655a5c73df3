"""Measures what the package costs, prints the page on it, and writes it to a file that is named. ``cargo xtask python
figures`` runs it with the library in its release form. It needs root, for the huge pages of its pool, and 10 GiB of memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import statistics
import subprocess
import sys
import time
from typing import Callable, Iterator, NamedTuple, Optional

import interpreter  # noqa: F401  The examples can be imported after it.
import plain
from private_pool import private_pool
from restart import measure

import pymemwright as mw
from pymemwright._library import library

GIB = 1 << 30
POOL = "figures"

Call = Callable[[], object]


class Figure(NamedTuple):
    what: str
    unit: str
    values: "list[float]"
    limit: str = ""
    is_kept: bool = True

    def row(self) -> str:
        spread = f"{number(min(self.values))} to {number(max(self.values))}" if len(self.values) > 1 else ""
        return f"| {self.what} | {number(statistics.median(self.values))} {self.unit} | {spread} | {self.limit} |"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ms(call: Call, clock: "Callable[[], float]" = time.perf_counter) -> float:
    start = clock()
    call()
    return (clock() - start) * 1e3


def in_turn(rounds: int, *calls: Call, clock: "Callable[[], float]" = time.perf_counter) -> "list[list[float]]":
    """Milliseconds of each call, in turn: other load on the machine meets all of them."""
    return [list(times) for times in zip(*([ms(call, clock) for call in calls] for _ in range(rounds)))]


def imports() -> "list[Figure]":
    code = "import time; s = time.process_time(); import pymemwright; print((time.process_time() - s) * 1e3)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(20)]
    return [Figure("`import pymemwright`, CPU time", "ms", times, "50 ms, the shortest", min(times) <= 50)]


def small_segments() -> "list[Figure]":
    found = []
    for size, name, limit_us in [(4096, "4 KiB", 50.0), (1 << 20, "1 MiB", float("inf"))]:
        times = in_turn(2000, lambda: plain.create(size), lambda: mw.Segment(size).close())
        without, binding = ([took * 1e3 for took in each] for each in times)
        over = min(binding) - min(without)
        limit = f"{limit_us:.0f} µs" if size == 4096 else ""
        found += [
            Figure(f"segment of {name}, the C calls alone", "µs", without),
            Figure("— by the package", "µs", binding),
            Figure("— shortest over shortest", "µs more", [over], limit, over <= limit_us),
        ]
    return found


def large_segments() -> "list[Figure]":
    calls = [lambda: plain.create(4 * GIB), lambda: mw.Segment(4 * GIB).close()]
    without, binding = in_turn(3, *calls, clock=time.process_time)
    shares = [100 * alone / both for alone, both in zip(without, binding)]
    share = 100 * statistics.median(without) / statistics.median(binding)
    return [
        Figure("segment of 4 GiB, created and destroyed, CPU time of the C calls alone", "ms", without),
        Figure("— by the package", "ms", binding),
        Figure("— its speed, of that of the C calls", "%", shares, "90%, of the medians", share >= 90),
    ]


def huge_page_count() -> int:
    return int(subprocess.check_output(["sysctl", "-n", "vm.nr_hugepages"]))


def set_huge_pages(count: int) -> None:
    subprocess.run(["sysctl", "--quiet", "--write", f"vm.nr_hugepages={count}"], check=True)


@contextlib.contextmanager
def huge_pages(size: int) -> "Iterator[None]":
    """Reserves more of them for as long as it lasts, in turn with the tests of other packages (``mw_test::alone``)."""
    with contextlib.ExitStack() as stack:
        turn = os.open("/proc/sys/vm", os.O_RDONLY)
        stack.callback(os.close, turn)
        fcntl.flock(turn, fcntl.LOCK_EX)
        before = huge_page_count()
        stack.callback(set_huge_pages, before)
        set_huge_pages(before + (size >> 21))
        missing = before + (size >> 21) - huge_page_count()
        if missing > 0:
            raise RuntimeError(f"{missing} huge pages could not be reserved (try memwright make-room {size},huge=2M)")
        yield


def attach_plainly(socket: str) -> None:
    lib = library()
    memory, error = ctypes.c_void_p(), ctypes.c_void_p()
    lib.mw_pool_attach(
        socket.encode(), POOL.encode(), 8 * GIB, b"kept", 60 * 10**9, ctypes.byref(memory), ctypes.byref(error)
    )
    if not memory:
        raise MemoryError(lib.mw_error_text(error).decode())
    lib.mw_pool_detach(memory)


def attaches() -> "list[Figure]":
    """Of contents that are kept: they are not zeroed before they are leased again."""
    with huge_pages(8 * GIB), private_pool(POOL, "8G", "2M") as socket:
        times: "list[float]" = []
        for _ in range(10):
            leases: "list[mw.Lease]" = []
            times.append(ms(lambda: leases.append(mw.attach(POOL, "8G", keep="kept", wait=60, socket=socket))))
            leases.pop().close()
        without, binding = in_turn(
            10,
            lambda: attach_plainly(socket),
            lambda: mw.attach(POOL, "8G", keep="kept", wait=60, socket=socket).close(),
        )
    each = [took / 8 for took in times]
    return [
        Figure("attach of 8 GiB on 2 MiB pages", "ms/GiB", each, "1 ms/GiB", statistics.median(each) <= 1),
        Figure("attach and close, by the C calls alone", "ms", without),
        Figure("— by the package", "ms", binding),
    ]


def restarts() -> "list[Figure]":
    with huge_pages(3 * GIB):
        found = measure(2048, "2M", 3)
    own, kept = (statistics.median(found[case]) for case in ["own memory, file cached", "lease, after SIGKILL"])
    figures = [Figure(f"engine with 2 GiB of weights ready: {case}", "s", times) for case, times in found.items()]
    return [*figures, Figure("— a kept lease is faster than a cached file by", "times", [own / kept], "1", own > kept)]


def processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def page(figures: "list[Figure]", before: float) -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    rows = "\n".join(figure.row() for figure in figures)
    return f"""# Costs of the Python package

Generated by `cargo xtask python figures --write`. [python/README.md](../../python/README.md) describes the package.

CPython {platform.python_version()} on {os.cpu_count()} CPUs ({processor()}), {memory:.0f} GiB, Linux {platform.release()};
load average {before:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end.
What is compared was measured in turn. CPU time is given where the time would mostly be that of waiting for the CPUs of a
busy machine.

| | median | from shortest to longest | limit |
|---|---|---|---|
{rows}

The engine is [engine.py](../python/examples/engine.py): it maps a file of weights, copies it into pinned memory, and
answers its first request, which reads a byte of each MiB. It is killed with SIGKILL after each start. With memory of its
own it allocates, pins and copies at each start; with a lease that is kept it finds the weights where they were. The first
start with a lease copies them once. All times include the start of Python.
"""


def main(path: Optional[str] = None) -> Optional[str]:
    before = os.getloadavg()[0]
    measured = [imports(), small_segments(), large_segments(), attaches(), restarts()]
    figures = [figure for group in measured for figure in group]
    text = page(figures, before)
    print(text, end="")
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    missed = [f"{figure.what}: limit {figure.limit}" for figure in figures if not figure.is_kept]
    return "; ".join(missed) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
