"""What a field asks for, in words: pydantic's findings as one would say them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from tasks.config import duration, patterns, size

_PATTERNS = {
    duration.PATTERN: "a time, such as 90s, 30m, 4h or 2d",
    size.PATTERN: "an amount of memory, such as 512MiB, 64GiB or 1TiB",
    **patterns.WORDS,
}
_KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "string_unicode": "text",
    "string_too_short": "text that is not empty",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of names to values",
    "mapping_type": "a mapping of names to values",
    "model_type": "a mapping of names to values",
    "model_attributes_type": "a mapping of names to values",
}
_LONGEST = 80
_FIELDS = (
    re.compile(r"\b([a-z_]+): (true|none|null|\d+)\b"),
    re.compile(r"\b([a-z_]+):()(?![^\s,])"),
    re.compile(r"(?<![\w-])([a-z]+_[a-z_]+)()\b"),
)
"""How a sentence of ours speaks of a field, with a value or without one."""


def wanted(error: Mapping[str, Any], pattern: str | None = None) -> str:
    """Returns what one of pydantic's findings says that the value must be, to follow "must be".

    `pattern`: what the field's text must match, if anything.
    """
    kind, context = error["type"], error.get("ctx", {})
    if kind == "string_type" and pattern in _PATTERNS:
        return _PATTERNS[pattern]
    if kind in _KINDS:
        return _KINDS[kind]
    if kind.startswith(("date", "timezone")):
        return "a moment, such as 2026-01-31T08:00:00Z, or a time from now on, such as 2h"
    match kind:
        case "greater_than":
            bound = context["gt"]
            return f"at least {bound + 1}" if isinstance(bound, int) else f"a number greater than {bound:g}"
        case "greater_than_equal":
            return f"at least {_number(context['ge'])}"
        case "less_than_equal":
            return f"at most {_number(context['le'])}"
        case "less_than":
            return f"less than {context['lt']}"
        case "literal_error":
            return str(context["expected"]).replace("'", "")
        case "string_pattern_mismatch":
            return _PATTERNS[context["pattern"]]
        case "string_too_long":
            return f"text of up to {context['max_length']} letters"
        case _:
            return str(error["msg"]).lower().removeprefix("input should be ")


def spelled(told: str, flag_of: Callable[[str], str | None]) -> str:
    """Returns what a model says of its fields with the flags in their place; `flag_of` returns None for other words."""

    def flag(found: re.Match[str]) -> str:
        name = flag_of(found[1])
        if name is None:
            return found[0]
        value = "none" if found[2] == "null" else found[2]
        return f"{name} {value}" if value not in ("", "true") else name

    for field in _FIELDS:
        told = field.sub(flag, told)
    return told


def written(value: Any) -> str:
    """Returns a value as a YAML file has it, cut where it is long, to follow "not"."""
    text = _plainly(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _number(bound: float) -> str:
    """Returns a bound as people write it: that of a field for any numbers may well be whole."""
    return str(int(bound)) if bound == int(bound) else str(bound)


def _plainly(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plainly, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_plainly(inner)}' for key, inner in value.items())}}}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, date):  # as YAML reads 2024-01-01 without quotes
        return f"{value.isoformat()}, a date: in quotes it is text"
    return repr(value)
