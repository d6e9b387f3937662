"""While things are given back, impatience must not cut it short: a second Ctrl-C is answered, a third one obeyed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flows.signals import HURRY, answered, hurried
from tasks.stages.context import Say


@contextmanager
def undisturbed(say: Say, *, tolerated: int = 1) -> Iterator[None]:
    """Within, `tolerated` SIGINTs or SIGTERMs are only answered; the next raises KeyboardInterrupt.

    So does the beginning, for whoever was in a hurry before: of giving back, this is the second try.
    """
    if hurried():
        say("nothing more is given back now: `slicebench reap` does what is left")
        raise KeyboardInterrupt
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left = tolerated

    def answer(number: signal.Signals) -> None:
        nonlocal left
        if left <= 0:
            raise KeyboardInterrupt
        left -= 1
        say(f"giving back what was made, a moment … {HURRY}")

    with answered((signal.SIGINT, signal.SIGTERM), answer):
        yield
