"""Numbers of things in words, so that no sentence says `1 points` or `point(s)`."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Returns a number and what it counts: `1 point`, `2 points`. For nouns that take an s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
