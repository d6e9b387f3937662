"""Numbers of things in words: no sentence says `1 benchmarks` or `benchmark(s)`, and all count from 1."""

from __future__ import annotations

import re

_SAYS_WHO = re.compile(r"worker \d+: ")


def counted(number: int, noun: str) -> str:
    """Returns a number and what it counts: `1 benchmark`, `2 benchmarks`. For nouns that take an s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def which(index: int, of: int = 0, name: str = "") -> str:
    """Returns which of a suite's benchmarks is meant, as people count: `benchmark 2 of 3 (Save)`.

    `index` is the point's number in the data, from 0; `of` how many there are, 0: not known.
    """
    told = f"benchmark {index + 1}" + (f" of {of}" if of else "")
    return f"{told} ({name})" if name else told


def said_by(who: str, cause: str) -> str:
    """Returns a cause with who says it; one that all workers agreed on says by itself whose it is."""
    return cause if _SAYS_WHO.match(cause) else f"{who}: {cause}"
