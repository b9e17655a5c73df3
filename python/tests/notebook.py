"""Executes the notebook of the examples, as Jupyter does, and looks at its plot. ``cargo xtask python notebook`` runs it, in
an environment with nbclient."""

import sys
from pathlib import Path

import nbclient
import nbformat

EXAMPLES = Path(__file__).parents[1] / "examples"


def main() -> None:
    notebook = nbformat.read(EXAMPLES / "stall.ipynb", as_version=4)
    stored = [cell for cell in notebook.cells if cell.get("outputs")]
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    *_, last = notebook.cells
    title = "".join(output.text for output in last.outputs if output.output_type == "stream")
    plots = [output for output in last.outputs if "image/png" in output.get("data", {})]
    if stored or len(plots) != 1 or "not memory: the process 'serve' was stopped" not in " ".join(title.split()):
        sys.exit(f"{len(stored)} cells with stored outputs, {len(plots)} plots, title: {title}")
    print("the notebook plots a stall and names its cause")


if __name__ == "__main__":
    main()
