"""Takes secrets out of all that a cluster says of a workload: objects, copies of them in others, events, logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
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
        self._redact = Redaction({value for one in objects for value in _secrets(one)})

    def object(self, one: Any) -> Any:
        """Returns an object as others may see it."""
        return self._part(one, "")

    def text(self, text: str) -> str:
        """Returns words of people and programs as others may see them."""
        return _by_name(_KNOWN.sub(_by_form, self._redact(without_logins(text))))

    def _part(self, one: Any, field: str) -> Any:
        if isinstance(one, Mapping):
            return {
                key: REDACTED
                if isinstance(value, str) and _is_secret(field, one, str(key))
                else self._part(value, str(key))
                for key, value in one.items()
                if key not in _NOT_FOR_OTHERS
            }
        if isinstance(one, list | tuple):
            hidden = _hidden_words(one) if field in _WORDS else frozenset()
            return [
                _without_value(part) if place in hidden else self._part(part, field)
                for place, part in enumerate(one)
            ]
        if not isinstance(one, str):
            return one
        inner = _parsed(one)
        if inner is not None:
            return json.dumps(self._part(inner, ""))
        shown = _KNOWN.sub(_by_form, self._redact(without_logins(one)))
        return _by_name(shown) if field in ("message", "note", *_WORDS) or "\n" in one else shown


def _secrets(one: Any, field: str = "") -> Iterator[str]:
    """Yields the values that are secrets by what they are called, wherever in an object they stand."""
    if isinstance(one, Mapping):
        for key, value in one.items():
            if isinstance(value, str) and _is_secret(field, one, str(key)):
                yield value
            else:
                yield from _secrets(value, str(key))
    elif isinstance(one, list | tuple):
        hidden = _hidden_words(one) if field in _WORDS else frozenset()
        for place, part in enumerate(one):
            if place in hidden:
                yield str(part).partition("=")[2] or str(part)
            else:
                yield from _secrets(part, field)
    elif isinstance(one, str) and (inner := _parsed(one)) is not None:
        yield from _secrets(inner)


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


def _without_value(word: Any) -> str:
    flag, equals, _ = str(word).partition("=")
    return f"{flag}={REDACTED}" if equals and flag.startswith("-") else REDACTED


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
