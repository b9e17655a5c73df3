"""The example with torch, which is too large for each run of the tests: ``cargo xtask ci --full`` runs it."""

import os
import sys

from interpreter import example


def main() -> None:
    os.environ["MEMWRIGHT_CUDART"] = "/nowhere"
    ended = example("torch_view.py", "16M", "4k")
    lines = ended.stdout.splitlines()
    expected = [
        "sum: 2097152",
        "no CUDA runtime: not pinned",
        "closed, and views of the segment exist; it is given back with the last of them: 0.5",
    ]
    if ended.returncode != 0 or not lines[0].startswith("(4096, 1024) floats at 0x") or lines[1:] != expected:
        sys.exit(f"torch_view.py: {ended.stdout}{ended.stderr}")
    print("torch has views without a copy")


if __name__ == "__main__":
    main()
