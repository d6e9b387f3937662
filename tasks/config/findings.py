"""Checks what somebody wrote against its model: every problem as one says it of a file, a flag or a form, at its place.

The one way from pydantic to people: what is wrong is told by field, reason and fix, and never in pydantic's words.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pydantic

from runtime.contract.errors import BadInput, Place, Problem
from runtime.contract.nearest import nearest
from tasks.config.wording import wanted, written

Checked = TypeVar("Checked", bound=pydantic.BaseModel)
Keys = tuple[str | int, ...]
"""Keys and indexes that lead to a field."""


class Written(ABC):
    """How people wrote what a model is made of: in a file, as flags, as fields by their own names."""

    def place(self, path: Keys, told: str = "") -> Place | None:
        """Returns where a field stands, or what a sentence about it speaks of; None: in no file."""
        return None

    @abstractmethod
    def name(self, path: Keys) -> str:
        """Returns what a field is called; empty: it is all of it. Paths also name what a value was taken for."""

    def value(self, given: Any) -> str:
        """Returns a value as it was written, to follow "not"."""
        return written(given)

    def wants(self, path: Keys, wanted: str) -> str:
        """Returns what a field must be, which `wanted` says in general."""
        return wanted

    def sentence(self, told: str) -> str:
        """Returns a sentence of a model about its fields, by the names that they have here."""
        return told

    def as_text(self, given: Any) -> str:
        """Returns how to write as text what was taken for something else; empty where all that is written is text."""
        return ""

    def add(self, name: str) -> str:
        """Returns what to do about a field that is missing."""
        return f"write {name}: …"


class Fields(Written):
    """Fields by their own names: of a form, of a record."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def name(self, path: Keys) -> str:
        """Returns the last word of a path that is a key of what was given, or a key that is missing there."""
        inside, name = self._given, ""
        for part in path:
            if isinstance(part, int):
                inside = inside[part] if isinstance(inside, Sequence) and part < len(inside) else None
            elif isinstance(inside, Mapping):
                inside, name = inside.get(part), part
        return name


def checked(
    model: type[Checked],
    given: Any,
    source: Written | None = None,
    *,
    about: str = "",
    fix: str = "",
) -> Checked:
    """Returns the model of what was written. Raises BadInput with all problems of it, at their places.

    `source` None: they are told by the names of the fields. `about` is what they all are about, where nobody wrote the
    fields himself; `fix` what to do then.
    """
    try:
        return model.model_validate(given)
    except pydantic.ValidationError as error:
        raise BadInput(problems(error, model, source or Fields(given), about=about, fix=fix)) from None


def problems(
    error: pydantic.ValidationError,
    model: type[pydantic.BaseModel],
    source: Written,
    *,
    about: str = "",
    fix: str = "",
) -> list[Problem]:
    """Returns pydantic's findings in our words, one for each field. Otherwise as `checked`."""
    found = dict.fromkeys(_problems(error, model, source))
    if not about:
        return list(found)
    return [Problem("error", one.place, f"{about}: {one.what}", one.why, fix or one.fix) for one in found]


def _problems(
    error: pydantic.ValidationError, model: type[pydantic.BaseModel], source: Written
) -> Iterator[Problem]:
    """Yields them; what may be one of several things fails once for each, and is told once."""
    branches: dict[tuple[Place | None, str, str], list[str]] = {}
    fixes: dict[tuple[Place | None, str, str], str] = {}
    for detail in error.errors():
        path = tuple(detail["loc"])
        where, name = source.place(path), source.name(path)
        if detail["type"] == "extra_forbidden":
            yield _unknown(where, name, path, model)
        elif detail["type"] == "missing":
            yield Problem("error", where, f"{name} is missing", fix=source.add(name))
        elif detail["type"] == "value_error":  # one of our own sentences
            told = source.sentence(str(detail.get("ctx", {}).get("error", "")))
            what = f"{name}: {told}" if name else told
            yield Problem("error", source.place(path, told), what)
        else:
            pattern = _pattern_of(model, path)
            told = wanted(detail, pattern)
            asked = source.wants(path, told)
            key = (where, name, source.value(detail["input"]))
            branches.setdefault(key, []).append(asked)
            if detail["type"] == "string_type" and _would_do_as_text(detail["input"], pattern):
                fixes[key] = source.as_text(detail["input"])
    for (where, name, given), words in branches.items():
        what = f"{name} must be {' or '.join(dict.fromkeys(words))}, not {given}"
        yield Problem("error", where, what, fix=fixes.get((where, name, given), ""))


def _would_do_as_text(given: Any, pattern: str | None) -> bool:
    """Whether quotes are all that is missing: of what YAML takes for a truth (off, yes) or a number, and is a name."""
    return pattern is None or re.fullmatch(pattern, str(given).lower()) is not None


def _pattern_of(model: type[pydantic.BaseModel], path: Keys) -> str | None:
    """Returns what text of a field must match, as far as the model itself says."""
    words = [word for word in path if isinstance(word, str)]
    nested: Mapping[str, type[pydantic.BaseModel]] = getattr(model, "nested", {})
    model = next((nested[word] for word in reversed(words[:-1]) if word in nested), model)
    field = model.model_fields.get(words[-1]) if words else None
    found = (getattr(one, "pattern", None) for one in (field.metadata if field else ()))
    return next((one for one in found if isinstance(one, str)), None)


def _unknown(
    where: Place | None, name: str, path: Sequence[str | int], model: type[pydantic.BaseModel]
) -> Problem:
    words = [word for word in path if isinstance(word, str)]
    nested: Mapping[str, type[pydantic.BaseModel]] = getattr(model, "nested", {})
    model = next((nested[word] for word in reversed(words[:-1]) if word in nested), model)
    if below := _having(name, model):
        return Problem("error", where, f"unknown key {name!r}", fix=f"write it below {below}:")
    names = [field.alias or own for own, field in model.model_fields.items()]
    near = nearest(name, names)
    known = ", ".join(names)
    return Problem(
        "error", where, f"unknown key {name!r}", fix=f"did you mean {near!r}?" if near else f"known: {known}"
    )


def _having(name: str, model: type[pydantic.BaseModel]) -> str | None:
    """Returns the key of a model below which the name is one."""
    for key, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, pydantic.BaseModel) and name in inner.model_fields:
            return key
    return None
