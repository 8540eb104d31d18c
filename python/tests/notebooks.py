"""Executes notebooks, and fails if a cell does or if one shows no picture: `python notebooks.py FOLDER`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config


def main() -> None:
    paths = sorted(Path(sys.argv[1]).glob("*.ipynb"))
    if not paths:
        raise SystemExit(f"{sys.argv[1]} has no notebook")
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        if any(cell.get("outputs") for cell in notebook.cells):
            raise SystemExit(f"{path} has outputs: clear them")
        resources = {"metadata": {"path": str(path.parent)}}
        with tempfile.TemporaryDirectory(prefix="weftline-") as folder:
            os.environ["WEFTLINE_STORE"] = f"{folder}/store"
            # By sockets that are files: a test opens no port.
            config = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})
            NotebookClient(notebook, timeout=1200, resources=resources, config=config).execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        if not any("image/png" in output.get("data", {}) for output in outputs):
            raise SystemExit(f"{path} shows no picture")
        print(f"{path.name}: {len(notebook.cells)} cells")


if __name__ == "__main__":
    main()
