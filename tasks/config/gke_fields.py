"""What single fields of GKE targets may hold: names of Kubernetes, one or several of a kind, exit codes, processors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from tasks.config import patterns
from tasks.config.wording import written

_CODES = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")


def _codes(value: Any) -> Any:
    """Takes `1, 3-5`, or a list of such, for the exit codes that it says."""
    parts = (
        value if isinstance(value, list | tuple) else value.split(",") if isinstance(value, str) else [value]
    )
    return tuple(code for part in parts for code in _range(written(part).strip("' ")))


def _range(text: str) -> Iterator[int]:
    match = _CODES.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last <= 255:
        raise ValueError(f"{text!r} is no exit code from 1 to 255, nor a range such as 3-5")
    yield from range(first, last + 1)


# What validators take besides, schemas must take as well: editors show them.
_KEY: dict[str, Any] = {"type": "string", "pattern": patterns.LABEL_KEY}
_CODE: dict[str, Any] = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 255}, {"type": "string"}]}
ExitCodes = Annotated[
    tuple[int, ...],
    BeforeValidator(_codes),
    WithJsonSchema({"anyOf": [*_CODE["anyOf"], {"type": "array", "items": _CODE}]}),
]
_RESERVATION: dict[str, Any] = {"type": "string", "pattern": patterns.RESERVATION}
Reservations = Annotated[
    tuple[Annotated[str, Field(pattern=patterns.RESERVATION)], ...],
    BeforeValidator(lambda names: (names,) if isinstance(names, str) else names),
    WithJsonSchema({"anyOf": [_RESERVATION, {"type": "array", "items": _RESERVATION}]}),
]
ObjectName = Annotated[str, Field(pattern=patterns.OBJECT, max_length=patterns.LONGEST_OBJECT)]
LabelKey = Annotated[str, Field(pattern=patterns.LABEL_KEY)]
LabelValue = Annotated[str, Field(pattern=patterns.LABEL_VALUE)]
LabelKeys = Annotated[
    tuple[LabelKey, ...],
    BeforeValidator(lambda keys: (keys,) if isinstance(keys, str) else keys),
    WithJsonSchema({"anyOf": [_KEY, {"type": "array", "items": _KEY}]}),
]
Processors = Annotated[
    str,
    Field(pattern=patterns.PROCESSORS, coerce_numbers_to_str=True),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "pattern": patterns.PROCESSORS}]}),
]
