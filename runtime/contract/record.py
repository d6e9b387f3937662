"""Makes a record of what a file says, whichever version of slicebench wrote it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

Record = TypeVar("Record")


def record_of(cls: type[Record], content: object, **made: Any) -> Record:
    """Returns a dataclass of those keys of a JSON object that it knows: others are from a newer version.

    `made` are fields that the caller made of the object already. Raises TypeError, saying what is wrong, when content
    is no object or lacks a field that has no default: then the file is damaged.
    """
    if not isinstance(content, Mapping):
        raise TypeError(f"a {cls.__name__} is a JSON object, not {type(content).__name__}")
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"{cls.__name__} is no dataclass")
    known = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: value for name, value in content.items() if name in known} | made)
