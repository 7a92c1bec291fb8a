"""Runs the notebooks of this folder and stores what they print and draw.

    python python/examples/run.py [NAME.ipynb ...]

Needs nbclient, ipykernel and matplotlib, which `pip install ./python[test]` brings. The tests run the notebooks too,
without storing anything.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def executed(path):
    """The notebook with fresh outputs; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False).execute()
    return notebook


def main():
    names = sys.argv[1:] or sorted(path.name for path in FOLDER.glob("*.ipynb"))
    for name in names:
        notebook = executed(FOLDER / name)
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                # A picture is enough; its text is the name of a Python object.
                if "image/png" in output.get("data", {}):
                    output["data"].pop("text/plain", None)
        nbformat.write(notebook, FOLDER / name)
        print(f"{name}: {(FOLDER / name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
