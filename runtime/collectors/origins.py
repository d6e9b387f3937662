"""Knows what was going on when a thread was started, so that what it does later can be credited to that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

What = TypeVar("What")


class Origins(Generic[What]):
    """Remembers for each thread started from now on what `now()` said, or the origin of its parent.

    Python offers no hook for the start of a thread, so `threading.Thread.start` is wrapped, at under a
    microsecond a start, until `close`.
    """

    def __init__(self, now: Callable[[], What]) -> None:
        self._origins: WeakKeyDictionary[threading.Thread, What] = WeakKeyDictionary()
        original = threading.Thread.start
        origins = self

        def start(self: threading.Thread) -> None:
            parent = origins.of_this_thread()
            origins._origins[self] = now() if parent is None else parent
            original(self)

        self._original, self._wrapped = original, start
        threading.Thread.start = start  # type: ignore[method-assign]

    def of_this_thread(self) -> What | None:
        """Returns the calling thread's origin; None for the main thread and those from before `forget`."""
        return self._origins.get(threading.current_thread())

    def forget(self) -> None:
        """Forgets all threads: what they do from now on has no origin."""
        self._origins = WeakKeyDictionary()

    def close(self) -> None:
        """Takes the wrapper off; when somebody has wrapped it since, it stays, harmless."""
        if threading.Thread.start is self._wrapped:
            threading.Thread.start = self._original  # type: ignore[method-assign]
