"""While things are given back, impatience must not cut it short: a second Ctrl-C is answered, a third one obeyed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flows.signals import answered
from tasks.stages.context import Say


@contextmanager
def undisturbed(say: Say, *, tolerated: int = 1) -> Iterator[None]:
    """Within, `tolerated` SIGINTs or SIGTERMs are only answered; the next raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left = tolerated

    def answer(number: signal.Signals) -> None:
        nonlocal left
        if left <= 0:
            raise KeyboardInterrupt
        left -= 1
        say("giving back what was made, a moment … (once more: hurry; `slicebench reap` does what is left)")

    with answered((signal.SIGINT, signal.SIGTERM), answer):
        yield
