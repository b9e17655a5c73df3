"""Runs the ``memwright`` program."""

from __future__ import annotations

import os

from . import _errors as errors

#: Names a program other than that of PATH.
VARIABLE = "MEMWRIGHT"

_LIMIT_S = 60


def run_program(arguments: "list[str]") -> bytes:
    """What it prints on standard output.

    Raises:
        Invalid: It takes the arguments for a mistake.
        MemwrightError: It is not there, does not end, or prints nothing.
    """
    import subprocess

    program = os.environ.get(VARIABLE, "memwright")
    try:
        ended = subprocess.run(
            [program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except OSError as error:
        raise errors.MemwrightError(
            f"{program}: {error.strerror}; install memwright, or name the program with {VARIABLE}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise errors.MemwrightError(f"{program} did not end within {_LIMIT_S} s") from error
    if ended.returncode == 2 or not ended.stdout:
        said = ended.stderr.decode(errors="replace").strip()
        kind = errors.Invalid if ended.returncode == 2 else errors.MemwrightError
        raise kind(said or f"{program} ended with {ended.returncode}")
    return ended.stdout
