"""Words in braces, such as {port}, in what somebody wrote: filled in, found unknown, or meant as they stand.

`{{port}}` stands for `{port}` itself. What a shell would fill in (`${port}`), and braces around anything but one word
in small letters, as in JSON, stay as they are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

_WORD = re.compile(r"(?<!\$)(?:\{\{(?P<meant>[a-z_]+)\}\}|\{(?P<word>[a-z_]+)\})")
_ALONE = re.compile(r"(?<!\$)\{[a-z_]+\}")


def filled(text: str, known: Mapping[str, str | int]) -> str:
    """Returns a text with the words that are known; what they are filled with is not looked at again."""

    def value(found: re.Match[str]) -> str:
        if found["meant"]:
            return f"{{{found['meant']}}}"
        return str(known.get(found["word"], found[0]))

    return _WORD.sub(value, text)


def literally(text: str) -> str:
    """Returns what is filled in to become the text as it stands."""
    return _ALONE.sub(lambda found: f"{{{found[0]}}}", text)


def unknown_word(text: str, known: Collection[str]) -> str:
    """Returns what is wrong with a word of a text that is none of those known, and what to write; empty: nothing."""
    for found in _WORD.finditer(text):
        word = found["word"]
        if word is None or word in known:
            continue
        near = difflib.get_close_matches(word, known, 1)
        words = ", ".join(f"{{{one}}}" for one in sorted(known))
        meant = f"write {{{near[0]}}}" if near else f"the placeholders are {words}"
        return f"{{{word}}} is not a placeholder here: {meant}, or write {{{{{word}}}}} for {{{word}}} itself"
    return ""
