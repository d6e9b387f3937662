"""Makes hundreds of thousands of objects that all stay, without Python looking through them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def untroubled_by_garbage() -> Iterator[None]:
    """While hundreds of thousands of objects are made that all stay, Python need not look through them for garbage."""
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()
