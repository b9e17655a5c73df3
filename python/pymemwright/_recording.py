"""Recordings of ``memwright watch``."""

from __future__ import annotations

import fnmatch
import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _errors as errors
from ._program import run_program

if TYPE_CHECKING:
    import pandas

#: A text as ``memwright export --since`` takes it, or a datetime; one without a zone is local.
Moment = Union[str, datetime]

#: What has a name of its own: columns whose names begin with one of these.
_GROUPS = {
    "memory": ("meminfo.",),
    "huge pages": ("meminfo.HugePages_", "buddy."),
    "reclaim": ("vmstat.pgscan", "vmstat.pgsteal", "vmstat.allocstall", "vmstat.workingset_", "vmstat.pswp"),
    "compaction": ("vmstat.compact_", "vmstat.thp_fault_"),
}


class Recording:
    """A recording, which is read by the ``memwright`` program; the recorder may be writing it.

    Args:
        path: Its file; None for that of the recorder of this machine.
    """

    def __init__(self, path: "Optional[Union[str, os.PathLike[str]]]" = None) -> None:
        self._named = [] if path is None else ["--recording", os.fspath(path)]

    def columns(
        self,
        what: str = "*",
        *,
        since: "Optional[Moment]" = None,
        until: "Optional[Moment]" = None,
        incident: "Optional[Union[int, str]]" = None,
    ) -> "dict[str, list[Any]]":
        """Columns by name (docs of ``memwright export``): ``at`` with times in UTC, the others with numbers, None where
        there is none.

        Args:
            what: ``memory``, ``huge pages``, ``reclaim``, ``compaction``; the part of names before the first dot, such as
                ``vmstat`` or ``pressure``; or a pattern such as ``node.0.*``.
            since: The beginning; None for that of the recording.
            until: The end.
            incident: Instead, the time of one incident, with ten rows a second: its number, ``"last"`` or ``"worst"``.

        Raises:
            Invalid: There is no such column, time or incident.
            MemwrightError: The recording cannot be read.
        """
        import csv
        import tempfile

        arguments = ["export", *self._named]
        for option, moment in (("--since", since), ("--until", until)):
            if moment is not None:
                arguments += [option, _text(moment)]
        if incident is not None:
            arguments += ["--incident", str(incident)]
        with tempfile.TemporaryDirectory(prefix="memwright-") as directory:
            path = os.path.join(directory, "recording.csv")
            run_program([*arguments, "--to", path])
            with open(path, newline="", encoding="utf-8") as file:
                rows = csv.reader(file)
                names = next(rows)
                places = [place for place, name in enumerate(names) if place > 0 and _is_wanted(name, what)]
                if not places:
                    groups = sorted({name.partition(".")[0] for name in names[1:]} | set(_GROUPS))
                    raise errors.Invalid(f"no column '{what}'; there are {', '.join(groups)}, and patterns with *")
                found: "dict[str, list[Any]]" = {"at": [], **{names[place]: [] for place in places}}
                lists = list(found.values())
                for row in rows:
                    lists[0].append(_time(row[0]))
                    for values, place in zip(lists[1:], places):
                        values.append(int(row[place]) if row[place] else None)
        return found

    def frame(
        self,
        what: str = "*",
        *,
        since: "Optional[Moment]" = None,
        until: "Optional[Moment]" = None,
        incident: "Optional[Union[int, str]]" = None,
    ) -> "pandas.DataFrame":
        """The same as a frame of pandas, with times as its index."""
        import pandas

        return pandas.DataFrame(self.columns(what, since=since, until=until, incident=incident)).set_index("at")

    def incidents(self) -> "list[dict[str, Any]]":
        """All incidents, the oldest first, as ``memwright incidents --all --json`` lists them."""
        import json

        found: "list[dict[str, Any]]" = json.loads(run_program(["incidents", "--all", "--json", *self._named]))
        return found


def _is_wanted(name: str, what: str) -> bool:
    if what in _GROUPS:
        return name.startswith(_GROUPS[what])
    return name.partition(".")[0] == what or fnmatch.fnmatchcase(name, what)


def _time(text: str) -> datetime:
    """Of RFC 3339 in UTC. ``fromisoformat`` takes any number of digits from Python 3.11 on."""
    second, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{second}.{fraction:0<6.6}+00:00")


def _text(moment: Moment) -> str:
    if isinstance(moment, datetime):
        return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return moment
