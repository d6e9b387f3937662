"""How long a stand-in lives, and where whoever started it finds it."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def tell_port(folder: Path, port: int) -> None:
    """Writes down where it is served; whoever sees the file can read it."""
    (folder / "port.new").write_text(str(port))
    (folder / "port.new").rename(folder / "port")


def wait_until_over(parent: int | None, over: threading.Event) -> None:
    """Returns when it is interrupted, when `over` is set, or when the process that started it is gone."""
    try:
        while (parent is None or os.getppid() == parent) and not over.wait(0.5):
            pass
    except KeyboardInterrupt:
        pass
