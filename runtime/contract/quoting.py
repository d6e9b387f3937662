"""Words for a shell, and back, without the standard library's module where nothing has to be quoted: a short command
would spend a thirtieth of its time on importing that.
"""

from __future__ import annotations

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


def quoted(word: str) -> str:
    """Returns a word as a shell has to read it."""
    if word and _PLAIN.issuperset(word):
        return word
    import shlex

    return shlex.quote(word)


def words_of(line: str) -> list[str]:
    """Returns the words of a line, as a shell reads it. Raises ValueError for a quotation that does not end."""
    if line.isascii() and line.isprintable() and not set("'\"\\").intersection(line):
        return line.split()
    import shlex

    return shlex.split(line)
