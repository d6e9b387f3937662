"""What is wrong with a command line, one line a flag, in the spelling of the flag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import cyclopts

from runtime.contract.errors import BadInput, Problem
from tasks.config.wording import wanted

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
    return Problem("error", None, f"{flag} must be {wanted(error)}, not {error['input']}")
