"""An inference engine in small: maps a file of weights, copies it into pinned memory, and serves.

    python engine.py WEIGHTS [POOL [SOCKET]]

With a pool, the pinned memory is a lease that is kept: an engine that is started again finds the weights in it, however
the one before ended. It prints the address of its server, which answers GET /health once the weights are there.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Optional, Union

import pymemwright as mw

Memory = Union[mw.Segment, mw.Lease]

#: Behind the weights stands which file they are of, once they are complete. Where a program's contents tell that they are
#: complete, it needs neither ``dirty`` nor ``mark_consistent``.
LABEL_BYTES = 32


def label(file: int) -> bytes:
    """Changes with the file: its inode, size and time of change."""
    status = os.fstat(file)
    return hashlib.sha256(repr((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)).encode()).digest()


def pinned(size: int, pool: Optional[str], socket: Optional[str]) -> Memory:
    if pool is None:
        return mw.Segment(size, lock=True)
    return mw.attach(pool, size, keep="weights", wait=60, socket=socket)


def load(path: str, pool: Optional[str], socket: Optional[str]) -> "tuple[Memory, bool]":
    """The weights in pinned memory, and whether they were there already."""
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        memory = pinned(length + LABEL_BYTES, pool, socket)
        view = memory.view
        behind = view[length : length + LABEL_BYTES]
        if behind == label(file.fileno()):
            return memory, True
        # An engine that is killed while it copies leaves no label.
        behind[:] = bytes(LABEL_BYTES)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as weights:
            view[:length] = weights
        behind[:] = label(file.fileno())
    return memory, False


def serve(memory: Memory, length: int, health: "dict[str, object]") -> None:
    view = memory.view[:length]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A byte of each MiB stands for a forward pass over the weights.
            body = json.dumps({**health, "sum": sum(view[:: 1 << 20])}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/health", flush=True)
        server.serve_forever()


def main(path: str, pool: Optional[str] = None, socket: Optional[str] = None) -> None:
    start = time.monotonic()
    memory, kept = load(path, pool, socket)
    health: "dict[str, object]" = {"kept": kept, "load_s": time.monotonic() - start}
    try:
        with mw.register_cuda(memory):
            serve(memory, os.path.getsize(path), {**health, "pinned": "for CUDA"})
    except mw.NoCuda:
        serve(memory, os.path.getsize(path), {**health, "pinned": "locked"})


if __name__ == "__main__":
    main(*sys.argv[1:])
