"""A pool server for an example or a test, which ends with it. On a machine with a pool, take that one instead."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional

_LIMIT_S = 60


@contextmanager
def private_pool(name: str, size: str, huge: Optional[str] = None) -> Iterator[str]:
    """A server with one pool, which is populated. Yields the path of its socket.

    Args:
        size: As ``memwright pool create --size`` takes it.
        huge: ``2M``, ``1G`` or ``thp``; None for base pages.
    """
    program = os.environ.get("MEMWRIGHT", "memwright")
    with tempfile.TemporaryDirectory(prefix="memwright-") as directory:
        socket = str(Path(directory) / "pool.sock")
        config = Path(directory) / "memwright.toml"
        config.write_text(f'state-dir = "{directory}"\n')
        serve = [program, "--config", str(config), "pool", "serve", "--socket", socket]
        log = Path(directory) / "log"
        with log.open("w") as messages:
            server = subprocess.Popen(serve, stderr=messages)
        try:
            while not Path(socket).exists():
                if server.poll() is not None:
                    raise RuntimeError(f"the pool server ended: {log.read_text().strip()}")
                time.sleep(0.01)
            create = [program, "pool", "create", name, "--size", size, "--socket", socket]
            create += ["--huge", huge] if huge is not None else []
            subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
            yield socket
        finally:
            server.terminate()
            server.wait(timeout=_LIMIT_S)
