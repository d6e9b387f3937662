"""Counts what the collectors themselves read, so that it can be taken out of what the benchmark read."""

from __future__ import annotations

import os
from pathlib import Path


class OwnReads:
    """Reads small files of /proc and /sys over and over, and knows how much that was."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0

    def open(self, path: str | Path) -> int:
        """Opens a file for `read`; the descriptor lives as long as the process."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, fd: int) -> bytes:
        """Returns the first 4096 bytes of the file as it is now."""
        data = os.pread(fd, 4096, 0)
        self.requests += 1
        self.bytes += len(data)
        return data
