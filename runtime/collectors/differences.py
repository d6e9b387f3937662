"""The collector for everything that only grows: read before a block, read after it, tell what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from runtime.measure import Collector, Operation, Probe, Value

State = TypeVar("State")


class Differences(Collector, Generic[State]):
    """Calls `read` at both ends of a block, and `changed(before, after)` once it is over."""

    def __init__(self, read: Callable[[], State], changed: Callable[[State, State], Iterable[Value]]) -> None:
        self._read, self._changed = read, changed

    def start(self, operation: Operation) -> Probe:
        """Reads for the first time."""
        return _Difference(self._read, self._changed)


class _Difference(Generic[State]):
    def __init__(self, read: Callable[[], State], changed: Callable[[State, State], Iterable[Value]]) -> None:
        self._read, self._changed = read, changed
        self._before = read()
        self._after = self._before

    def stop(self) -> None:
        self._after = self._read()

    def values(self) -> Iterable[Value]:
        return self._changed(self._before, self._after)
