"""Signals that are answered in a way of their own within a block, and as before after it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def answered(numbers: Iterable[signal.Signals], answer: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Within, each of these signals calls `answer`, which may raise. In the main thread only: else ValueError."""
    before = {
        number: signal.signal(number, lambda got, frame: answer(signal.Signals(got))) for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
