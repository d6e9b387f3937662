"""A clock for the recorder that runs only where it is said that something takes time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from runtime import measure

SAVE_S, WAIT_S, RELOAD_S, RESTORE_S, SEND_S, SPANS_S = 0.4, 0.6, 0.2, 0.5, 0.7, 0.1
"""What operations of several workers are told to take, by tests/system/timed_replicas.py."""


class Clock:
    """Stands for the module time in the recorder: only what is said to take time does."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def slow(self, real: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        """Returns a function that takes so many seconds, whatever else that takes time it calls."""

        def call(*arguments: Any, **more: Any) -> Any:
            began = self.now
            done = real(*arguments, **more)
            self.now = began + seconds
            return done

        return call


@contextlib.contextmanager
def known_times(*calls: tuple[Any, str, float]) -> Iterator[Clock]:
    """Lets each of these, a name of a module or class, take so many seconds and nothing else any while inside."""
    clock = Clock()
    with contextlib.ExitStack() as changed:
        changed.enter_context(mock.patch.object(measure, "time", clock))
        for where, name, seconds in calls:
            changed.enter_context(mock.patch.object(where, name, clock.slow(getattr(where, name), seconds)))
        yield clock
