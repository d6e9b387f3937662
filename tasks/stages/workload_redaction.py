"""Takes secrets out of all that a cluster says of a workload: objects, copies of them in others, events, logs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.contract.redaction import REDACTED, Redaction, without_logins
from tasks.config.envfile import looks_secret

_NOT_FOR_OTHERS = frozenset({"kubectl.kubernetes.io/last-applied-configuration", "managedFields"})
"""What repeats the whole object, or tells of each of its fields who set it."""

_FREE = frozenset({"annotations", "labels", "volumeAttributes", "options", "data", "stringData"})
"""Fields whose keys people choose: there a key can say that its value is a secret."""

_WORDS = frozenset({"command", "args"})
_HEADERS = frozenset({"authorization", "proxy-authorization"})
_CONTROLLERS_OWN = re.compile(r"(^|\.)(k8s|kubernetes)\.io/")

_NAMED = re.compile(r"""(?P<name>[A-Za-z_][\w.-]*)["']?\s?[=:]\s?["']?""")
_VALUE = re.compile(r"""[^\s"',;&)\]}]+""")
_COUNTED = re.compile(r"[\d.,]+")
_BY_ITSELF = frozenset({"key", "keys", "tokens"})
"""Words of logs that are rarely names of secrets: keys of trees, tokens that a model reads."""

_KNOWN = re.compile(
    r"(?P<before>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}"
    r"|\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}"
    r"|AIza[\w-]{30,}|ya29\.[\w-]{16,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.|\n)*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
"""What is a secret by its form alone, as services make them."""


class BundleRedaction:
    """What hides the secrets of some objects: in these and others, and in texts."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._redact = Redaction(_secrets(objects))
        self._shown = _Walk(lambda secret: REDACTED, self._field, _NOT_FOR_OTHERS)

    def object(self, one: Any) -> Any:
        """Returns an object as others may see it."""
        return self._shown(one)

    def text(self, text: str) -> str:
        """Returns words of people and programs as others may see them."""
        return _by_name(self._known(text))

    def _field(self, text: str, field: str) -> str:
        words = field in ("message", "note", *_WORDS) or "\n" in text
        return self.text(text) if words else self._known(text)

    def _known(self, text: str) -> str:
        return _KNOWN.sub(_by_form, self._redact(without_logins(text)))


def _secrets(objects: Iterable[Any]) -> set[str]:
    """Returns the values that are secrets by what they are called, wherever in objects they stand."""
    found: set[str] = set()

    def note(secret: str) -> str:
        found.add(secret)
        return REDACTED

    look = _Walk(note, lambda text, field: text)
    for one in objects:
        look(one)
    return found


@dataclass(frozen=True)
class _Walk:
    """A way through all of an object: what the functions return stands in the object that it returns.

    `secret` gets each value that is a secret by what it is called, `other` every other text, with the name of the field
    that it is in. Keys that are `left_out` are not in what is returned.
    """

    secret: Callable[[str], str]
    other: Callable[[str, str], str]
    left_out: frozenset[str] = frozenset()

    def __call__(self, one: Any, field: str = "") -> Any:
        if isinstance(one, Mapping):
            return {
                key: self.secret(value)
                if isinstance(value, str) and _is_secret(field, one, str(key))
                else self(value, str(key))
                for key, value in one.items()
                if key not in self.left_out
            }
        if isinstance(one, list | tuple):
            hidden = _hidden_words(one) if field in _WORDS else frozenset()
            return [
                self._word(str(part)) if place in hidden else self(part, field)
                for place, part in enumerate(one)
            ]
        if not isinstance(one, str):
            return one
        inner = _parsed(one)
        return self.other(one, field) if inner is None else json.dumps(self(inner))

    def _word(self, word: str) -> str:
        flag, equals, value = word.partition("=")
        return f"{flag}={self.secret(value)}" if equals and flag.startswith("-") else self.secret(word)


def _is_secret(field: str, around: Mapping[str, Any], key: str) -> bool:
    """Says whether a text is a secret by its key among others of a field, or by the name that stands beside it."""
    if key == "value":
        name = str(around.get("name") or "")
        return looks_secret(_as_variable(name)) or name.lower() in _HEADERS
    return field in _FREE and not _CONTROLLERS_OWN.search(key) and looks_secret(_as_variable(key))


def _as_variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name.rpartition("/")[2])


def _hidden_words(words: Any) -> frozenset[int]:
    """Returns the places of those words of a command that are, or have behind `=`, the value of a secret flag."""
    hidden = set()
    for place, word in enumerate(words):
        flag, equals, _ = str(word).partition("=")
        if flag.startswith("-") and looks_secret(_as_variable(flag.lstrip("-"))):
            following = str(words[place + 1]) if place + 1 < len(words) else ""
            if equals:
                hidden.add(place)
            elif following and not following.startswith("-"):
                hidden.add(place + 1)
    return frozenset(hidden)


def _parsed(text: str) -> Any:
    """Returns the object that a text is, as in annotations of tools that keep a copy; None: it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict | list) else None


def _by_form(found: re.Match[str]) -> str:
    return f"{found['before'] or ''}{REDACTED}"


def _by_name(text: str) -> str:
    """Returns text without the values of what has the name of a secret before a `=` or `:`."""
    parts, at = [], 0
    for named in _NAMED.finditer(text):
        value = _VALUE.match(text, named.end())
        if named.start() >= at and value is not None and _is_assigned(named["name"], value[0]):
            parts += [text[at : named.end()], REDACTED]
            at = value.end()
    return "".join((*parts, text[at:]))


def _is_assigned(name: str, value: str) -> bool:
    if name.lower() in _BY_ITSELF or value == REDACTED.rstrip(")"):
        return False
    if "tokens" in name.lower() and _COUNTED.fullmatch(value):
        return False
    return looks_secret(_as_variable(name.rpartition(".")[2]))
