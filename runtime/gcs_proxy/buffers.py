"""The memory that all transfers of a process share: who finds none waits, and is refused when that takes long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.gcs_proxy.format import SEGMENT_BYTES
from runtime.gcs_proxy.refusal import unavailable

LARGE, SMALL = 16, 4
"""Segments that a transfer reads at once: fewer system calls while there is room, less memory when many run."""
_PATIENCE_S = 60.0


class Budget:
    """So many bytes for buffers."""

    def __init__(self, total: int) -> None:
        self._total, self._used, self._freed = total, 0, threading.Condition()

    @property
    def used(self) -> int:
        """How many bytes are in use now."""
        return self._used

    @contextmanager
    def take(self, wanted: int, beside: int = 0) -> Iterator[tuple[int, memoryview, memoryview]]:
        """Gives a buffer for up to `wanted` segments and one for `beside`; and how many segments the first holds.

        Raises Refused (503).
        """
        with self._freed:
            if not self._freed.wait_for(lambda: self._fits(min(wanted, SMALL) + beside), _PATIENCE_S):
                raise unavailable("all buffers of this proxy are in use")
            roomy = self._used + (LARGE + beside) * SEGMENT_BYTES <= self._total // 2
            count = max(1, min(wanted, LARGE if roomy else SMALL))
            size = (count + beside) * SEGMENT_BYTES
            self._used += size
        try:
            buffer = memoryview(bytearray(size))
            yield count, buffer[: count * SEGMENT_BYTES], buffer[count * SEGMENT_BYTES :]
        finally:
            with self._freed:
                self._used -= size
                self._freed.notify_all()

    def _fits(self, segments: int) -> bool:
        return self._used + segments * SEGMENT_BYTES <= self._total
