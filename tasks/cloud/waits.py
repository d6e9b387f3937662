"""Says what is waited for when an answer is slow to come, and until when at most: silence leaves people guessing."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_AFTER_S = 8.0
"""How long people bear it without a word."""
_FAILED_S = 2.0
"""The same where a try has failed already: there is something to say."""
_AGAIN_S = 30.0


class _Wait:
    """Something that is waited for; by `until` it has come, or is given up."""

    def __init__(self, what: str, within_s: float, *, firm: bool = False) -> None:
        self.what, self.since, self.firm = what, time.monotonic(), firm
        self.until = self.since + within_s
        self.told_at = self.since
        self.why = ""

    def __str__(self) -> str:
        now = time.monotonic()
        left_s = max(0.0, self.until - now)
        why = f"; the last try: {self.why}" if self.why else ""
        return f"still waiting after {now - self.since:.0f} s, for {in_words(left_s)} more at most: {self.what}{why}"


class _Watch:
    """Tells of waits that are open for long, from a thread that is there as long as it has something to look after."""

    def __init__(self, tell: Callable[[str], None], after_s: float, again_s: float) -> None:
        self._tell, self._after_s, self._again_s = tell, after_s, again_s
        self._changed = threading.Condition()
        self._open: dict[_Wait, None] = {}
        self._running = False
        self._over = False

    def begin(self, wait: _Wait) -> None:
        with self._changed:
            self._open[wait] = None
            if not self._running:
                self._running = True
                threading.Thread(target=self._look, name="waits", daemon=True).start()

    def end(self, wait: _Wait) -> None:
        with self._changed:
            self._open.pop(wait, None)

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()

    def _look(self) -> None:
        while (told := self._next()) is not None:
            if told:
                self._tell(told)

    def _next(self) -> str | None:
        """Returns what to say, after a while; empty: nothing now. None: there is nothing to look after any more."""
        with self._changed:
            if self._over or not self._open:
                self._running = False
                return None
            now = time.monotonic()
            due = [wait for wait in self._open if self._due_at(wait) <= now]
            if not due:
                self._changed.wait(min(self._due_at(wait) for wait in self._open) - now)
                return ""
            for wait in due:
                wait.told_at = now
            more = f" (and {len(due) - 1} more)" if len(due) > 1 else ""
            return f"{due[0]}{more}"

    def hear(self) -> None:
        """A try has failed: a wait may be due sooner than was thought."""
        with self._changed:
            self._changed.notify()

    def _due_at(self, wait: _Wait) -> float:
        if wait.told_at != wait.since:
            return wait.told_at + self._again_s
        return wait.since + (min(_FAILED_S, self._after_s) if wait.why else self._after_s)


_watch: _Watch | None = None
_outer: ContextVar[_Wait | None] = ContextVar("wait", default=None)


@contextmanager
def telling(
    tell: Callable[[str], None], *, after_s: float | None = None, again_s: float = _AGAIN_S
) -> Iterator[None]:
    """Within, whatever this process waits for longer than `after_s` (8 s) is told, and again every `again_s`."""
    global _watch
    before, _watch = _watch, _Watch(tell, _AFTER_S if after_s is None else after_s, again_s)
    mine = _watch
    try:
        yield
    finally:
        mine.stop()
        _watch = before


@contextmanager
def waiting(what: str, within_s: float | None, *, firm: bool = False) -> Iterator[None]:
    """Around something that may take long; it ends by itself within so many seconds. None: it may take any time.

    Of waits within one another the outermost is told, as long as the innermost may take; `firm`: no longer than that.
    """
    watch, outer = _watch, _outer.get()
    if within_s is None or watch is None:
        yield
    elif outer is not None:
        if not outer.firm:
            outer.until = max(outer.until, time.monotonic() + within_s)
        yield
    else:
        wait = _Wait(what, within_s, firm=firm)
        _outer.set(wait)
        watch.begin(wait)
        try:
            yield
        finally:
            watch.end(wait)
            _outer.set(None)


def tried(why: str, left_s: float = math.inf) -> None:
    """Within a wait, says what the last try came to: an answer that it is tried again after is one, too.

    `left_s`: after that it is given up, if it stays so.
    """
    outer = _outer.get()
    if outer is not None:
        outer.until = min(outer.until, time.monotonic() + left_s)
        outer.why = " ".join(why.split())
        if _watch is not None:
            _watch.hear()


@contextmanager
def untold() -> Iterator[None]:
    """Within, nothing is told of what this thread waits for: whoever tells it must not be told of its telling."""
    _outer.set(_Wait("", 0.0))
    try:
        yield
    finally:
        _outer.set(None)


def in_words(length_s: float) -> str:
    """Returns a length of time for people."""
    return f"{length_s:.0f} s" if length_s < 300 else f"{length_s / 60:.0f} min"


def _after_fork() -> None:
    """A child has none of its parent's threads, nor waits for what that waits for."""
    global _watch
    if _watch is not None:
        _watch = _Watch(_watch._tell, _watch._after_s, _watch._again_s)
    _outer.set(None)


os.register_at_fork(after_in_child=_after_fork)
