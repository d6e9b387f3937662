"""`python -m tests.cloud NAME …`: starts a stand-in of this folder by hand, until Ctrl-C; each has a `main(argv)`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path


def stand_ins() -> Mapping[str, str]:
    """Returns the stand-ins that can be started by hand, by name: files, and folders with a `serve.py`."""
    folder = Path(__file__).parent
    files = {file.stem: f"tests.cloud.{file.stem}" for file in folder.glob("[!_]*.py") if _starts(file)}
    folders = {
        file.parent.name: f"tests.cloud.{file.parent.name}.serve" for file in folder.glob("*/serve.py")
    }
    return {**files, **folders}


def _starts(file: Path) -> bool:
    return "\ndef main(" in file.read_text()


if __name__ == "__main__":
    known = stand_ins()
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        sys.exit(f"usage: python -m tests.cloud {{{','.join(sorted(known))}}} …")
    try:
        sys.exit(importlib.import_module(known[sys.argv[1]]).main(sys.argv[2:]))
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing}: stand-ins need what tests need, which `make .venv/dev.stamp` installs")
