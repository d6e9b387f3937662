"""Takes secrets out of all that a cluster says of a workload: objects, copies of them in others, events, logs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from runtime.contract.redaction import REDACTED, Redaction, without_logins
from tasks.config.envfile import looks_secret

_NOT_FOR_OTHERS = frozenset({"kubectl.kubernetes.io/last-applied-configuration", "managedFields"})
"""What repeats the whole object, or tells of each of its fields who set it."""

_FREE = frozenset({"annotations", "labels", "volumeAttributes", "options", "data", "stringData"})
"""Fields whose keys people choose: there a key can say that its value is a secret."""

_WORDS = frozenset({"command", "args"})
_HEADERS = frozenset({"authorization", "proxy-authorization"})
_CONTROLLERS_OWN = re.compile(r"(^|\.)(k8s|kubernetes)\.io/")

_NAMED = re.compile(r"""(?P<name>[A-Za-z_][\w.-]*)["']?\s?[=:]\s?(?P<quote>["']?)""")
_FLAG = re.compile(r"""(?<![\w-])--?(?P<name>[A-Za-z][\w.-]*)["']?,?[ \t]+(?P<quote>["']?)""")
"""A flag and a blank, in a line of a shell or in a list of words as programs print theirs."""

_VALUE = re.compile(r"""[^\s"',;&)\]}]+""")
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\.)+(?={quote})") for quote in ("'", '"')}
_VARIABLE = re.compile(r"\$(\w+|\{\w+\}|\(\w+\)?)")
"""What is no value, but says where one is."""

_TORN = re.compile(r"(?:^[\w+/-]{60,}\n)+[\w+/-]*", re.MULTILINE)
"""Base64 in lines: what is in it may begin in one and end in the next."""

_LINE = re.compile(r"[^\n]+")
_PASSWORD = re.compile(r"(?<=:)//[^/@:\s]*:([^/@\s]+)@")
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
    """What hides the secrets of some objects: in these and others, and in texts.

    `values` are known to be secrets, `names` those of variables whose values are.
    """

    def __init__(self, objects: Iterable[Any], values: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        sure = set(values)
        self._names = frozenset(names)
        self._redact = Redaction(
            _secrets(objects, self._names) | {part for one in sure for part in _by_themselves(one)}, sure
        )
        self._shown = _Walk(lambda secret: REDACTED, self._field, _NOT_FOR_OTHERS)

    def object(self, one: Any) -> Any:
        """Returns an object as others may see it."""
        return self._shown(one)

    def text(self, text: str) -> str:
        """Returns words of people and programs as others may see them."""
        return _spliced(text := self._known(text), _assigned(text, self._names))

    def _field(self, text: str, field: str) -> str:
        words = field in ("message", "note", *_WORDS) or "\n" in text
        return self.text(text) if words else self._known(text)

    def _known(self, text: str) -> str:
        whole = _TORN.sub(self._untorn, self._redact(without_logins(text)))
        return _KNOWN.sub(_by_form, whole)

    def _untorn(self, found: re.Match[str]) -> str:
        joined = found[0].replace("\n", "")
        shown = self._redact(joined)
        return found[0] if shown == joined else shown


def _secrets(objects: Iterable[Any], names: Set[str]) -> set[str]:
    """Returns the values that are secrets by what they are called or by their form, wherever in objects they stand."""
    found: set[str] = set()

    def note(secret: str) -> str:
        found.add(secret)
        return REDACTED

    def search(text: str, field: str) -> str:
        found.update(_by_themselves(text))
        if field in _WORDS:
            found.update(text[start:end] for start, end in _assigned(text, names) if text[start] != "$")
        return text

    look = _Walk(note, search)
    for one in objects:
        look(one)
    return found


def _by_themselves(text: str) -> Iterator[str]:
    """Yields the parts of a text that are secrets whatever stands around them."""
    for found in _KNOWN.finditer(text):
        yield found[0].removeprefix(found["before"] or "")
    for login in _PASSWORD.finditer(text):
        yield from {login[1], unquote(login[1])}


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


def _spliced(text: str, places: Iterable[tuple[int, int]]) -> str:
    """Returns text with something else at some places of it."""
    parts, at = [], 0
    for start, end in places:
        parts += [text[at:start], REDACTED]
        at = end
    return "".join((*parts, text[at:]))


def _assigned(text: str, names: Set[str]) -> Iterator[tuple[int, int]]:
    """Yields where values are of what has the name of a secret, before a `=` or `:` or as a flag."""
    at = 0
    for named in sorted((*_NAMED.finditer(text), *_FLAG.finditer(text)), key=lambda one: one.start()):
        value = _value_at(text, named, names)
        if named.start() >= at and value is not None and _is_assigned(named, value[0], names):
            yield value.span()
            at = value.end()


def _value_at(text: str, named: re.Match[str], names: Set[str]) -> re.Match[str] | None:
    """Returns what the name is given, to the end of the line where a program printed its whole environment."""
    if quoted := _QUOTED.get(named["quote"]):
        return quoted.match(text, named.end()) or _VALUE.match(text, named.end())
    whole = named["name"] in names and named.start() == text.rfind("\n", 0, named.start()) + 1
    return (_LINE if whole else _VALUE).match(text, named.end())


def _is_assigned(named: re.Match[str], value: str, names: Set[str]) -> bool:
    name = named["name"]
    if value == REDACTED.rstrip(")") or (named.re is _FLAG and value.startswith("-")):
        return False
    if named["quote"] != "'" and _VARIABLE.fullmatch(value):
        return False
    if name in names:
        return True
    flag = "-" in named.string[max(0, named.start() - 1) : named.start() + 1]
    if (name.lower() in _BY_ITSELF and not flag) or ("tokens" in name.lower() and _COUNTED.fullmatch(value)):
        return False
    return looks_secret(_as_variable(name.rpartition(".")[2]))
