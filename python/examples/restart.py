"""An inference engine (engine.py) that is killed with SIGKILL and started again: the time until it answers, with memory of
its own and with a lease that is kept.

    python restart.py [--weights SIZE] [--huge PAGES] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Optional

from private_pool import private_pool

ENGINE = str(Path(__file__).with_name("engine.py"))
MIB = 1 << 20


def write_weights(path: str, mib: int) -> int:
    """Returns the sum that an engine with these weights has to answer."""
    rest = os.urandom(MIB - 1)
    with open(path, "wb") as file:
        for number in range(mib):
            file.write(bytes([number % 251]) + rest)
        file.flush()
        os.fsync(file.fileno())
    return sum(number % 251 for number in range(mib))


def uncache(path: str) -> None:
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def start(path: str, *pool: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, ENGINE, path, *pool], stdout=subprocess.PIPE, text=True)


def health(engine: "subprocess.Popen[str]") -> "dict[str, object]":
    """What it answers once it is ready."""
    assert engine.stdout is not None
    address = engine.stdout.readline().strip()
    if not address:
        raise RuntimeError(f"the engine ended with {engine.wait()}")
    with urllib.request.urlopen(address, timeout=60) as answer:
        found: "dict[str, object]" = json.load(answer)
    return found


def kill(engine: "subprocess.Popen[str]") -> None:
    engine.send_signal(signal.SIGKILL)
    engine.communicate()


def ready_s(expected_sum: int, is_kept: bool, path: str, *pool: str) -> float:
    """Starts an engine, and kills it when it has answered."""
    begun = time.monotonic()
    engine = start(path, *pool)
    try:
        answer = health(engine)
        took = time.monotonic() - begun
        if (answer["kept"], answer["sum"]) != (is_kept, expected_sum):
            raise RuntimeError(f"the engine answered {answer}")
        return took
    finally:
        kill(engine)


def measure(mib: int, huge: Optional[str], rounds: int) -> "dict[str, list[float]]":
    """Seconds until it answers, in each case."""
    with tempfile.TemporaryDirectory(prefix="memwright-") as directory:
        path = os.path.join(directory, "weights")
        total = write_weights(path, mib)
        # The label behind the weights needs a page; a pool of huge pages consists of whole GiB.
        room = mib // 1024 + 1
        with private_pool("models", f"{room}G", huge) as socket:
            pool = ("models", socket)
            uncache(path)
            found: "dict[str, list[float]]" = {"lease, first start": [ready_s(total, False, path, *pool)]}
            cases = ["own memory, file not cached", "own memory, file cached", "lease, after SIGKILL"]
            found.update({case: [] for case in cases})
            for _ in range(rounds):
                uncache(path)
                found[cases[0]].append(ready_s(total, False, path))
                found[cases[1]].append(ready_s(total, False, path))
                found[cases[2]].append(ready_s(total, True, path, *pool))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to ready of an engine that is killed and started again.")
    parser.add_argument("--weights", type=int, default=1024, metavar="MIB", help="size of the weights [1024]")
    parser.add_argument("--huge", choices=["2M", "1G", "thp"], help="pages of the pool [base pages]")
    parser.add_argument("--rounds", type=int, default=3, help="starts of each kind [3]")
    given = parser.parse_args()
    for case, seconds in measure(given.weights, given.huge, given.rounds).items():
        print(f"{case:<28} {statistics.median(seconds):6.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")


if __name__ == "__main__":
    main()
