"""Pins memory for a GPU: checks that copies are right and failures roll back, and measures what it costs.

    MEMWRIGHT_LIBRARY=… python tests/cuda.py [SIZE]

It needs torch with a GPU, and root for the huge pages, which it releases. The table is that of eval/results/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import statistics
import sys
import time
from typing import Callable, Iterator, NamedTuple

import torch
from figures import GIB, huge_pages, ms

import pymemwright as mw
from pymemwright._cuda import _runtime
from pymemwright._memory import size_of

ROUNDS = 5
#: cudaErrorHostMemoryAlreadyRegistered
ALREADY_REGISTERED = 712


def numbers(memory: mw.Segment) -> torch.Tensor:
    return torch.frombuffer(memory.view, dtype=torch.int32)


def check_copies(page: str) -> None:
    """What a GPU reads and writes while the memory is pinned in chunks of whole rows is what the segment holds."""
    with mw.Segment("256M", page=page, kind="anon") as segment:
        host = numbers(segment).view(-1, 1024)
        torch.arange(host.numel(), dtype=torch.int32, out=host.view(-1))
        with mw.register_cuda(segment, chunk="48M", align=4096) as registered:
            assert len(registered.chunks) == 6, registered.chunks
            assert host.is_pinned(), "pinned while it is registered"
            for chunk in registered.chunks:
                rows = host[chunk.offset // 4096 : (chunk.offset + chunk.length) // 4096]
                on_gpu = rows.to("cuda", non_blocking=True)
                on_gpu += 1
                rows.copy_(on_gpu, non_blocking=True)
            torch.cuda.synchronize()
        assert not host.is_pinned(), "no longer pinned"
        expected = torch.arange(1, host.numel() + 1, dtype=torch.int32)
        assert torch.equal(host.view(-1), expected), "copied there and back"
        del host, rows


def check_rollback() -> None:
    """A chunk that cannot be registered takes those before it back, and its error is not blamed on the next call."""
    with mw.Segment("64M", page="4k") as segment:
        last = list(segment.chunks("16M"))[-1]
        address, length = ctypes.c_void_p(last.address), ctypes.c_size_t(last.length)
        assert _runtime().cudaHostRegister(address, length, 0) == 0
        try:
            mw.register_cuda(segment, chunk="16M")
            raise AssertionError("the last chunk was registered twice")
        except mw.CudaError as error:
            assert error.code == ALREADY_REGISTERED, error
        host = numbers(segment)
        assert not host.is_pinned(), "the first chunk was taken back"
        assert torch.ones(4, device="cuda").sum().item() == 4
        assert _runtime().cudaHostUnregister(address) == 0
        del host


#: The tensor that is pinned, alone in a list, so that it ends when the list is cleared.
Held = list[torch.Tensor]


@contextlib.contextmanager
def host_alloc(size: int) -> Iterator[Held]:
    address = ctypes.c_void_p()
    assert _runtime().cudaHostAlloc(ctypes.byref(address), ctypes.c_size_t(size), 0) == 0
    memory = (ctypes.c_ubyte * size).from_address(address.value or 0)
    held = [torch.frombuffer(memoryview(memory), dtype=torch.int32)]
    yield held
    held.clear()
    assert _runtime().cudaFreeHost(address) == 0


@contextlib.contextmanager
def registered(size: int) -> Iterator[Held]:
    """Memory of malloc(3), which the driver populates while it pins it."""
    held = [torch.empty(size // 4, dtype=torch.int32)]
    address = ctypes.c_void_p(held[0].data_ptr())
    assert _runtime().cudaHostRegister(address, ctypes.c_size_t(size), 0) == 0
    yield held
    assert _runtime().cudaHostUnregister(address) == 0
    held.clear()


@contextlib.contextmanager
def segment(size: int, page: str, kind: str) -> Iterator[Held]:
    with mw.Segment(size, page=page, kind=kind) as memory, mw.register_cuda(memory):
        held = [numbers(memory)]
        yield held
        held.clear()


WAYS: "dict[str, Callable[[int], contextlib.AbstractContextManager[Held]]]" = {
    "cudaHostAlloc": host_alloc,
    "malloc, cudaHostRegister": registered,
    "**segment, 4k**, `register_cuda`": lambda size: segment(size, "4k", "anon"),
    "**segment, thp**, `register_cuda`": lambda size: segment(size, "thp", "anon"),
    "**segment, 2M**, `register_cuda`": lambda size: segment(size, "2M", "memfd"),
}


class Turn(NamedTuple):
    pinned_ms: float
    freed_ms: float
    to_gpu_gb_s: float
    to_host_gb_s: float


def turn(way: str, size: int, on_gpu: torch.Tensor) -> Turn:
    memory = WAYS[way](size)
    start = time.perf_counter()
    held = memory.__enter__()
    pinned = (time.perf_counter() - start) * 1e3
    assert held[0].is_pinned()
    to_gpu = copied(lambda: on_gpu.copy_(held[0], non_blocking=True))
    to_host = copied(lambda: held[0].copy_(on_gpu, non_blocking=True))
    freed = ms(lambda: memory.__exit__(None, None, None))
    return Turn(pinned, freed, size / to_gpu / 1e6, size / to_host / 1e6)


def copied(copy: Callable[[], object]) -> float:
    """Milliseconds of the second copy, which finds everything mapped."""

    def once() -> None:
        copy()
        torch.cuda.synchronize()

    once()
    return ms(once)


def turns(size: int) -> "Iterator[tuple[str, list[Turn]]]":
    """All ways in turn, after a round that does not count: memory that the host must back first is dearer."""
    on_gpu = torch.empty(size // 4, dtype=torch.int32, device="cuda")
    with huge_pages(size):
        rounds = [[turn(way, size, on_gpu) for way in WAYS] for _ in range(ROUNDS + 1)][1:]
    return zip(WAYS, ([each[number] for each in rounds] for number in range(len(WAYS))))


def row(way: str, measured: "list[Turn]", gib: float, plain: float) -> str:
    made = [each.pinned_ms / gib for each in measured]
    median = statistics.median(made)
    freed = statistics.median(each.freed_ms / gib for each in measured)
    rates = [statistics.median(rate) for rate in zip(*((each.to_gpu_gb_s, each.to_host_gb_s) for each in measured))]
    return (
        f"| {way} | {median:.0f} ({min(made):.0f} to {max(made):.0f}) | {plain / median:.1f}x | {freed:.0f} "
        f"| {rates[0]:.1f} | {rates[1]:.1f} |"
    )


def main(size: str = "8G") -> None:
    # Without a context of its own, torch takes no memory for pinned.
    torch.ones(1, device="cuda")
    for page in ["4k", "thp"]:
        check_copies(page)
    check_rollback()
    print("copies are right, failures roll back\n")
    total, before = size_of(size), os.getloadavg()[0]
    found = list(turns(total))
    plain = statistics.median(each.pinned_ms / (total / GIB) for each in found[0][1])
    print(
        f"{total / GIB:.0f} GiB, {ROUNDS} rounds, {torch.cuda.get_device_name()}, torch {torch.__version__}, "
        f"{os.cpu_count()} CPUs, Linux {os.uname().release}; load average {before:.1f} at the beginning.\n"
    )
    print("| ms/GiB, median (shortest to longest) | until it is pinned | of cudaHostAlloc | until it is free "
          "| GB/s to the GPU | GB/s from it |")
    print("|---|---|---|---|---|---|")
    for way, measured in found:
        print(row(way, measured, total / GIB, plain))


if __name__ == "__main__":
    main(*sys.argv[1:])
