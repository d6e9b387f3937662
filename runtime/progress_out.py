"""The worker's side of the line protocol: one JSON record a line, to where its supervisor listens."""

from __future__ import annotations

import os

from runtime.contract.progress import PROGRESS_FD_VARIABLE, FromWorker, encode


class ProgressWriter:
    """Writes records; does nothing where nobody listens. A supervisor that went away is no reason to fail."""

    def __init__(self, descriptor: int | None) -> None:
        """`descriptor` is open for writing; None: nobody listens."""
        self._descriptor = descriptor

    @classmethod
    def from_environment(cls) -> ProgressWriter:
        """Returns a writer to the descriptor in SLICEBENCH_PROGRESS_FD."""
        value = os.environ.get(PROGRESS_FD_VARIABLE)
        return cls(int(value) if value else None)

    def tell(self, body: FromWorker) -> None:
        """Writes one record; where it fits, as one write, so that records of several threads do not mix."""
        if self._descriptor is None:
            return
        line = memoryview(encode(body).encode() + b"\n")
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except BrokenPipeError:
            self._descriptor = None
