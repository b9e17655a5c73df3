"""Questions to the ``memwright`` program."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from ._memory import Size, size_of
from ._program import run_program
from ._segment import FOLIOS


class Preflight(NamedTuple):
    """Whether the machine can provide a request."""

    #: ``yes``, ``slowly``, ``no`` or ``unknown``.
    answer: str
    #: The answer in one line.
    summary: str
    #: The shortest and the longest time to expect with one thread, in seconds; None where it is not predicted.
    seconds: "Optional[tuple[float, float]]"
    #: All that ``memwright check --for --json`` says.
    report: "dict[str, Any]"


def check() -> "dict[str, Any]":
    """The report of ``memwright check --json`` (docs/schema/report-v1.json).

    Raises:
        MemwrightError: The program is not there, or could not check the machine.
    """
    return _run([])


def preflight(
    size: Size, *, lock: bool = False, page: Optional[str] = None, node: Optional[int] = None
) -> Preflight:
    """Whether this process could allocate so much now.

    Args:
        size: Bytes, or text such as ``"32G"``.
        lock: Locked in memory.
        page: ``2M``, ``1G`` or ``thp``; folios of ``16k`` to ``1M`` or ``best``; None for base pages.
        node: From this NUMA node alone.
    """
    request = str(size_of(size))
    request += ",lock" if lock else ""
    if page is not None:
        request += f",page={page}" if page in (*FOLIOS, "best") else f",huge={page}"
    if node is not None:
        request += f",node={int(node)}"
    report = _run(["--for", request])
    found = report["preflight"]
    time = found.get("time")
    seconds = (time["low_ms"] / 1000, time["high_ms"] / 1000) if time else None
    return Preflight(found["answer"], found["summary"], seconds, report)


def _run(arguments: "list[str]") -> "dict[str, Any]":
    import json

    report: "dict[str, Any]" = json.loads(run_program(["check", "--json", *arguments]))
    return report
