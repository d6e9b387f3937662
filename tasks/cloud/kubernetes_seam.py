"""The seam of a log that is read in pieces: where to go on after a cut so that no line is lost and none comes twice.

A server gives a log from a second on, not from a line on. So of the last seconds every line is remembered, by a hash of
its time and text, and what comes again is left out. To compare times alone would not do: a container's two streams are
written side by side, and a line may stand after one that is later by a microsecond. Only lines that are written while
nobody reads, by a clock that was just then set back by more than those seconds, are beyond what can be asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from datetime import datetime, timedelta

_SECONDS = 4
"""How many of the last seconds in which there are lines are remembered."""

_SECOND = 19
"""Letters of a time down to the second: 2026-01-31T23:59:59."""


class Seam:
    """What was read of one container's log so far. Lines are as the server gives them, each with its time before it."""

    def __init__(self) -> None:
        self.words = ""
        """What came instead of a line, last: why the log cannot be read, in words of the node's."""
        self._seen: dict[bytes, array[int]] = {}
        self._forgotten = b""
        self._last = b""
        self._zone = "Z"
        self.count = 0
        """How many lines were read."""
        self._again: dict[int, int] = {}
        self._skip = 0

    def resume(self) -> dict[str, str]:
        """Returns from where the server is to go on; what comes again from there is known from now on."""
        self._again, self._skip = {}, 0
        if not self._seen:
            return {}
        if self._last <= self._forgotten:  # a clock was set back: no time divides what was read from the rest
            self._skip = self.count
            return {}
        for hashes in self._seen.values():
            for one in hashes:
                self._again[one] = self._again.get(one, 0) + 1
        if not self._forgotten:
            return {}
        since = datetime.fromisoformat(self._forgotten.decode()) + timedelta(seconds=1)
        return {"sinceTime": f"{since.isoformat()}{self._zone}"}

    def fresh(self, lines: Iterable[bytes]) -> list[bytes]:
        """Returns the lines that were not there before the cut, and remembers them."""
        found: list[bytes] = []
        for line in lines:
            if line[10:11] != b"T" or line[4:5] != b"-":
                if line:
                    self.words = line.decode(errors="replace")
                continue
            if self._skip:
                self._skip -= 1
                continue
            key = hash(line)
            if self._again and (left := self._again.get(key)):
                if left == 1:
                    del self._again[key]
                else:
                    self._again[key] = left - 1
                continue
            self._note(line, key)
            found.append(line)
        return found

    def _note(self, line: bytes, key: int) -> None:
        self._last = second = line[:_SECOND]
        self.count += 1
        hashes = self._seen.get(second)
        if hashes is None:
            at = line.partition(b" ")[0]
            self._zone = "Z" if at.endswith(b"Z") else at[-6:].decode()
            hashes = self._seen[second] = array("q")
            if len(self._seen) > _SECONDS:
                oldest = next(iter(self._seen))
                del self._seen[oldest]
                self._forgotten = max(self._forgotten, oldest)
        hashes.append(key)
