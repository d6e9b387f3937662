"""Reads YAML that is written as plainly as programs write kubeconfigs, and leaves whatever else there is to PyYAML.

PyYAML takes longer to import than a short command has in all. What is read here means the same to both: a test sees to
that. Where there is any doubt nothing is read, nor any mistake told: that is PyYAML's to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_LETTERS = re.compile(r"[ -~\n]*")
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9_./-]*):(?: (.*))?")
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "{}": {}, "[]": []}
_NO_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_TEXT = re.compile(r"[A-Za-z/_].*")
_MORE = re.compile(r"[A-Za-z0-9/_(].*")
_QUOTED = re.compile(r"\"([^\"\\]*)\"|'([^']*)'")


class _DoubtError(Exception):
    """What stands there may mean something else."""


def plain_yaml(text: str) -> dict[str, Any] | None:
    """Returns the mapping that a document is; None where it is anything else, or not plain."""
    if not _LETTERS.fullmatch(text):
        return None
    try:
        return _Reader(text).document()
    except (_DoubtError, RecursionError):
        return None


class _Reader:
    """Goes through the lines once: each as how far it is indented, its text, and whether it stands apart."""

    def __init__(self, text: str) -> None:
        self._lines: list[tuple[int, str, bool]] = []
        self._at = 0
        apart = True
        for line in text.split("\n"):
            told = line.lstrip(" ")
            if told and not told.startswith("#"):
                self._lines.append((len(line) - len(told), told, apart))
            apart = not told or told.startswith("#")

    def document(self) -> dict[str, Any]:
        found = self._entries(0)
        if not found or self._at < len(self._lines):
            raise _DoubtError
        return found

    def _here(self) -> tuple[int, str, bool]:
        return self._lines[self._at] if self._at < len(self._lines) else (-1, "", True)

    def _entries(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            here, text, _ = self._here()
            if here != indent or text.startswith("- "):
                return found
            entry = _ENTRY.fullmatch(text)
            if entry is None or entry[1] in found or entry[1].lower() in _NO_TEXT:
                raise _DoubtError
            self._at += 1
            found[entry[1]] = self._value(entry[2], indent) if entry[2] else self._below(indent)

    def _below(self, indent: int) -> Any:
        """Returns what stands under a key that has nothing beside it; lists need not be indented."""
        here, text, _ = self._here()
        if text.startswith("- ") and here >= indent:
            return self._items(here)
        return self._entries(here) if here > indent else None

    def _items(self, indent: int) -> list[Any]:
        found: list[Any] = []
        while True:
            here, text, apart = self._here()
            if here != indent or not text.startswith("- "):
                return found
            if _ENTRY.fullmatch(text[2:]):
                self._lines[self._at] = (indent + 2, text[2:], apart)
                found.append(self._entries(indent + 2))
            else:
                self._at += 1
                found.append(self._value(text[2:], indent))

    def _value(self, text: str, indent: int) -> Any:
        """Returns what stands beside a key or in a list; text may go on in lines that are indented more."""
        if text in _WORDS:
            return _WORDS[text] if text not in ("{}", "[]") else type(_WORDS[text])()
        if quoted := _QUOTED.fullmatch(text):
            return quoted[1] if quoted[1] is not None else quoted[2]
        lines = [_certain(text, _TEXT)]
        while self._here()[0] > indent:
            _, more, apart = self._here()
            if apart:
                raise _DoubtError
            lines.append(_certain(more, _MORE))
            self._at += 1
        return " ".join(lines)


def _certain(text: str, kind: re.Pattern[str]) -> str:
    unsure = ": " in text or " #" in text or text.endswith((":", " ")) or text.lower() in _NO_TEXT
    if unsure or not kind.fullmatch(text):
        raise _DoubtError
    return text
