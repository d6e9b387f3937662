"""`python -m tests.cloud NAME …`: starts a stand-in of this folder by hand, until Ctrl-C; each has a `main(argv)`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def names() -> list[str]:
    """Returns the stand-ins that can be started by hand."""
    files = Path(__file__).parent.glob("*.py")
    return sorted(file.stem for file in files if "\ndef main(" in file.read_text())


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in names():
        sys.exit(f"usage: python -m tests.cloud {{{','.join(n for n in names() if n != '__main__')}}} …")
    sys.exit(importlib.import_module(f"tests.cloud.{sys.argv[1]}").main(sys.argv[2:]))
