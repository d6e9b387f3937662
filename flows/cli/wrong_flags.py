"""What is wrong with a command line, one line a flag, in the spelling of the flag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

import cyclopts

from runtime.contract.errors import BadInput, Problem

_RENAMED = {"from_stage": "--from"}
_SEE = "see slicebench --help"


def refusal_of(error: cyclopts.CycloptsError) -> BadInput:
    """Returns the refusal of a command line that cyclopts, or the model behind its flags, did not take."""
    # Most commands have no model behind their flags; for those, pydantic need not be imported to ask.
    if type(cause := error.__cause__).__module__.startswith("pydantic"):
        from pydantic import ValidationError

        if isinstance(cause, ValidationError):
            return BadInput([_problem(each) for each in cause.errors()])
    if isinstance(error, cyclopts.UnusedCliTokensError) and error.unused_tokens:
        words = ", ".join(error.unused_tokens)
        return BadInput(f"nothing is known to be done with: {words}", fix=_SEE)
    return BadInput(str(error).rstrip("."), fix=_SEE)


def checked_range(flag: str, value: int, least: int, most: float = math.inf) -> int:
    """Returns the value of a flag; raises BadInput when it is out of its range."""
    if least <= value <= most:
        return value
    wanted = f"at least {least}" if most == math.inf else f"between {least} and {most}"
    raise BadInput(f"{flag} must be {wanted}, not {value}")


def _problem(error: Mapping[str, Any]) -> Problem:
    name = str(error["loc"][0]) if error["loc"] else ""
    flag = _RENAMED.get(name, f"--{name.replace('_', '-')}")
    return Problem("error", None, f"{flag} must be {_wanted(name, error)}, not {error['input']}")


def _wanted(name: str, error: Mapping[str, Any]) -> str:
    """Returns what the field's type asks for, as one would say it."""
    from tasks.config.request import RunRequest

    field = RunRequest.model_fields.get(name)
    whole = field is not None and int in (field.annotation, *get_args(field.annotation))
    match error["type"]:
        case "greater_than":
            return "at least 1" if whole else f"a number greater than {error['ctx']['gt']:g}"
        case "literal_error":
            return str(error["ctx"]["expected"]).replace("'", "")
        case "int_parsing" | "int_from_float":
            return "a whole number"
        case "float_parsing":
            return "a number"
        case "string_pattern_mismatch":
            return "a time, such as 90s, 30m, 4h or 2d"
        case _:
            return str(error["msg"]).lower()
