"""The memory that all transfers of a process share: who finds none waits, and is refused when that takes long.

A client that hardly reads or writes keeps what its transfer has only while nobody waits for it.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from runtime.gcs_proxy.format import SEGMENT_BYTES
from runtime.gcs_proxy.refusal import unavailable
from runtime.gcs_proxy.wire import Wire

LARGE, SMALL = 32, 4
"""Segments that a transfer reads and sends at once: so many while there is room that client, store and proxy seldom
have to wake each other, which takes longer than opening does; less memory when many run."""
_PATIENCE_S = 60.0
_SLOW_S, _LEAST = 20.0, 256 << 10
"""A client that moves less in so long a time gives way to one that waits. None on the same machine is as slow that
does not stand still, or means to."""


@dataclass(eq=False)
class Loan:
    """Memory that a transfer has: a buffer for `count` segments, and another one beside it if it has two."""

    client: Wire
    count: int
    size: int
    buffer: memoryview = field(init=False)
    beside: memoryview = field(init=False)


class Budget:
    """So many bytes for buffers."""

    def __init__(self, total: int) -> None:
        self._total, self._used, self._freed = total, 0, threading.Condition()
        self._loans = set[Loan]()
        self.waiting = 0
        """How many transfers wait for memory now."""

    @property
    def used(self) -> int:
        """How many bytes are in use now."""
        return self._used

    @contextmanager
    def take(self, client: Wire, wanted: int, buffers: int = 1) -> Iterator[Loan]:
        """Lends a buffer for up to `wanted` segments, or two of them.

        `client`: whom they are for; it is cut off where it stands still while others wait. Raises Refused (503).
        """
        with self._freed:
            self.waiting += 1
            try:
                self._wait(min(wanted, SMALL) * buffers * SEGMENT_BYTES)
            finally:
                self.waiting -= 1
            # Half of what is left of the first half: who comes behind has much, too, and the second half is for many.
            share = (self._total // 2 - self._used) // (2 * buffers * SEGMENT_BYTES)
            count = max(1, min(wanted, LARGE, max(SMALL, share)))
            loan = Loan(client, count, count * buffers * SEGMENT_BYTES)
            self._used += loan.size
            self._loans.add(loan)
        try:
            # Not of the heap: it is there only where it is used, and all of it goes back at the end. Without flags it
            # would be memory that processes share, and that a pod counts as such.
            memory = mmap.mmap(-1, loan.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            whole = memoryview(memory)
            loan.buffer, loan.beside = whole[: count * SEGMENT_BYTES], whole[count * SEGMENT_BYTES :]
            try:
                yield loan
            finally:
                # What broke off holds its buffer until its error is dealt with, and the next one has its own by then.
                memory.madvise(mmap.MADV_DONTNEED)
        finally:
            with self._freed:
                self._used -= loan.size
                self._loans.remove(loan)
                self._freed.notify_all()

    def _wait(self, size: int) -> None:
        """Returns when so many bytes are free. Raises Refused (503)."""
        began = looked = time.monotonic()
        seen = self._moved()
        while self._used + size > self._total:
            now = time.monotonic()
            if now >= began + _PATIENCE_S:
                raise unavailable("all buffers of this proxy are in use")
            if now >= looked + _SLOW_S:
                self._cut_slow(seen, size - (self._total - self._used))
                seen, looked = self._moved(), now
            self._freed.wait(min(began + _PATIENCE_S, looked + _SLOW_S) - now)

    def _moved(self) -> dict[Loan, int]:
        return {loan: loan.client.moved for loan in self._loans}

    def _cut_slow(self, seen: dict[Loan, int], missing: int) -> None:
        """Ends transfers whose clients have moved next to nothing since then, until enough will be free."""
        slow = [
            (moved, loan)
            for loan, before in seen.items()
            if loan in self._loans and loan.client.waiting and (moved := loan.client.moved - before) < _LEAST
        ]
        for _, loan in sorted(slow, key=lambda one: one[0]):
            if missing <= 0:
                return
            missing -= loan.size
            with contextlib.suppress(OSError):
                loan.client.cut("the client stood still while others waited for its buffers")
