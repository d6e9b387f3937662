"""Finds the highest value of something that keeps no peak of its own, by looking every few milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable

PERIOD_S = 0.005
"""Short enough to see a buffer that lives for one write of some megabytes; costs under 1 % of a core."""


class Watch:
    """The highest value seen since the watch began."""

    def __init__(self, first: int) -> None:
        self.peak = first

    def see(self, value: int) -> None:
        """Takes a value into account."""
        if value > self.peak:
            self.peak = value


class Sampler:
    """Calls `read` every `period_s` in a thread of its own, as long as somebody watches."""

    def __init__(self, read: Callable[[], int], period_s: float = PERIOD_S) -> None:
        self._read = read
        self._period_s = period_s
        self._watches: list[Watch] = []
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> Watch:
        """Starts a watch; watches may overlap."""
        watch = Watch(self._read())
        self._watches.append(watch)
        if self._thread is None:
            self._quit = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._quit,), name="sampler", daemon=True)
            self._thread.start()
        return watch

    def end(self, watch: Watch) -> None:
        """Ends a watch with one last look; the thread stops with the last one."""
        watch.see(self._read())
        self._watches.remove(watch)
        if not self._watches and self._thread is not None:
            self._quit.set()
            self._thread.join()
            self._thread = None

    def _run(self, quit_asked: threading.Event) -> None:
        while not quit_asked.wait(self._period_s):
            value = self._read()
            for watch in tuple(self._watches):
                watch.see(value)
