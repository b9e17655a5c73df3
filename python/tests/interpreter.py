"""Scripts in an interpreter of their own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

#: The programs that readers are shown.
EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.append(str(EXAMPLES))


def child(code: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Runs a script with everything that the interpreter can complain about."""
    return _run(["-c", textwrap.dedent(code)], env)


def example(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs one of the examples likewise."""
    return _run([str(EXAMPLES / name), *arguments], {})


def _run(arguments: "list[str]", env: "dict[str, str]") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-X", "dev", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **env})
