"""Takes out of what workers say the values of secrets and everything that a terminal would obey."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, quote_plus

from runtime.contract.names import SECRET_NAMES_VARIABLE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Record = TypeVar("Record", bound=DataclassInstance)

REDACTED = "(redacted)"
"""Stands where the value of a secret was."""

SHORTEST = 6
"""Letters of the shortest value that is looked for: `1` or `true` would take half of every line away."""

SHORTEST_SURE = 4
"""Letters of the shortest value that is looked for where no doubt is that it is a secret."""

_CONTROL = re.compile(
    r"\x1b[P\]X^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # strings: titles, links, the clipboard
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, moves
    r"|\x1b[ -/]*[0-~]"  # other escapes
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # control characters but tab and line feed, of 8 bits as well
    r"|[\u2028-\u202e\u2066-\u2069]"  # other ends of lines, and what turns the direction of text
)
_LOGIN = re.compile(r"(?<=:)//[^/@\s]+@")
_TEXTS = ("text", "cause", "operation", "benchmark", "reason", "evidence")
"""Fields of records and events that hold words for people, as somebody chose them."""


class Redaction:
    """A function over text: `Redaction(["hunter2"])("it is hunter2\\x1b[0m")` gives `it is (redacted)`.

    A value of SHORTEST letters or more is found as it is, escaped as in JSON, in Python or in a URL, in base64 (also
    within something longer), and line by line when it has several. Of the values of `sure` SHORTEST_SURE letters are
    enough, but not of each of their lines. Tabs and line feeds stay. Without secrets it only cleans.
    """

    def __init__(self, secrets: Iterable[str] = (), sure: Iterable[str] = ()) -> None:
        forms = {clean(form) for secret in secrets for form in _forms(secret, SHORTEST)}
        forms |= {clean(form) for secret in sure for form in _forms(secret, SHORTEST_SURE)}
        longest_first = sorted(
            (form for form in forms if len(form) >= SHORTEST_SURE), key=lambda form: (-len(form), form)
        )
        self._secret = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @classmethod
    def of_environment(cls, variables: Mapping[str, str]) -> Redaction:
        """Returns what hides the values of those variables whose names SLICEBENCH_SECRET_ENV lists."""
        return cls(variables[name] for name in secret_names(variables) if name in variables)

    def __call__(self, text: str) -> str:
        """Returns text, cleaned first: what an escape tears apart on its way is one word on a screen."""
        text = clean(text)
        return self._secret.sub(REDACTED, text) if self._secret else text

    def record(self, record: Record) -> Record:
        """Returns a record of a stream, or an event, whose words for people are redacted."""
        changed = {}
        for name in _TEXTS:
            value = getattr(record, name, None)
            if isinstance(value, str) and (text := self(value)) != value:
                changed[name] = text
        return dataclasses.replace(record, **changed) if changed else record


def without_logins(text: str) -> str:
    """Returns text with what stands before the host in URLs replaced."""
    return _LOGIN.sub(f"//{REDACTED}@", text)


def clean(text: str) -> str:
    """Returns text without escapes and control characters, with which it could write over what a terminal shows."""
    return _CONTROL.sub("", text)


def secret_names(variables: Mapping[str, str]) -> set[str]:
    """Returns the names that SLICEBENCH_SECRET_ENV lists."""
    return listed_names(variables, SECRET_NAMES_VARIABLE)


def listed_names(variables: Mapping[str, str], lists: str) -> set[str]:
    """Returns the names of variables that one of ours lists."""
    return set(re.split(r"[,\s]+", variables.get(lists, ""))) - {""}


def _forms(secret: str, shortest: int) -> Iterator[str]:
    """Yields the forms in which programs print a value of so many letters at least."""
    lines = {line.strip() for line in secret.splitlines()}
    whole = {secret, secret.strip()}
    for value in whole | {line for line in lines if len(line) >= SHORTEST}:
        if len(value) < shortest:
            continue
        yield value
        yield json.dumps(value)[1:-1]
        yield json.dumps(value, ensure_ascii=False)[1:-1]
        yield repr(value)[1:-1]
        yield quote(value, safe="")
        yield quote(value)
        yield quote_plus(value)
        yield from _in_base64(value.encode("utf-8", "surrogateescape"))


def _in_base64(value: bytes) -> Iterator[str]:
    """Yields what base64 makes of bytes at each of the three places they can have in something longer."""
    for before in range(3):
        data = bytes(before) + value
        certain = slice(
            (before * 8 + 5) // 6, len(data) * 8 // 6
        )  # letters that nothing but the value decides
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(data).decode()[certain]
