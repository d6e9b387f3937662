"""Waiting for a condition in tests: with a deadline, never by sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 240.0
"""Longer than anything takes that works, also where others use the machine; less than what ends a test."""

T = TypeVar("T")


def until(condition: Callable[[], T], seconds: float = PATIENCE_S) -> T:
    """Returns what the condition gives once that is true; fails the test when it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return value
