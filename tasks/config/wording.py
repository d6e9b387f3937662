"""What a field asks for, in words: pydantic's findings as one would say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.config import duration, patterns, size

_PATTERNS = {
    duration.PATTERN: "a time, such as 90s, 30m, 4h or 2d",
    size.PATTERN: "an amount of memory, such as 512MiB, 64GiB or 1TiB",
    **patterns.WORDS,
}


def wanted(error: Mapping[str, Any]) -> str:
    """Returns what one of pydantic's findings says that the value must be, to follow "must be"."""
    context = error.get("ctx", {})
    match error["type"]:
        case "greater_than":
            bound = context["gt"]
            return f"at least {bound + 1}" if isinstance(bound, int) else f"a number greater than {bound:g}"
        case "greater_than_equal":
            return f"at least {context['ge']}"
        case "less_than_equal":
            return f"at most {context['le']}"
        case "less_than":
            return f"less than {context['lt']}"
        case "literal_error":
            return str(context["expected"]).replace("'", "")
        case "int_parsing" | "int_from_float" | "int_type":
            return "a whole number"
        case "float_parsing" | "float_type":
            return "a number"
        case "bool_parsing" | "bool_type":
            return "true or false"
        case "string_type":
            return "text"
        case "list_type" | "tuple_type":
            return "a list"
        case "string_pattern_mismatch":
            return _PATTERNS[context["pattern"]]
        case "string_too_short":
            return "text that is not empty"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "a mapping of names to values"
        case _:
            return str(error["msg"]).lower().removeprefix("input should be ")
