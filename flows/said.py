"""How commands speak: what was asked for on stdout, by --json as one object; what happens meanwhile on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_typed: ContextVar[Sequence[str]] = ContextVar("typed", default=())


@contextmanager
def aiming(words: Sequence[str]) -> Iterator[None]:
    """Within, commands that are named to people lead to where this command line does."""
    before = _typed.set(words)
    try:
        yield
    finally:
        _typed.reset(before)


def aimed(text: str) -> str:
    """Returns what is told with the flags that the commands in it need."""
    words = _typed.get()
    if not words or "slicebench " not in text:
        return text
    from flows.aim import aimed as led

    return led(text, words)


def say(*lines: str) -> None:
    """Tells people, at once: whoever looks may be waiting for it."""
    for line in lines:
        print(aimed(line), file=sys.stderr, flush=True)


@contextmanager
def surely(made: str) -> Iterator[None]:
    """Within, what was made is told on stdout; where that cannot be written, `made` names it on stderr."""
    try:
        yield
        sys.stdout.flush()
    except BaseException:
        say(made)
        raise


def print_json(content: Mapping[str, Any]) -> None:
    """Prints one object, on one line, for programs. What JSON does not know is written as its text."""
    print(json.dumps(content, default=str))
