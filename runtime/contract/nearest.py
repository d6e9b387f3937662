"""Which known word was probably meant by one that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that was probably meant, or None."""
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.72)
    return found[0] if found else None
