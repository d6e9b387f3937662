"""What is wrong with a command line, one line a flag, in the spelling of the flag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

import cyclopts

from runtime.contract.errors import BadInput

_RENAMED = {"from_stage": "--from"}
_KINDS = {int: "a whole number", float: "a number"}


def refusal_of(error: cyclopts.CycloptsError) -> BadInput:
    """Returns the refusal of a command line that cyclopts, or the model behind its flags, did not take."""
    # Most commands have no model behind their flags; for those, pydantic need not be imported to ask.
    if type(cause := error.__cause__).__module__.startswith("pydantic"):
        from pydantic import ValidationError

        if isinstance(cause, ValidationError):
            from tasks.config.as_flags import Flags
            from tasks.config.findings import problems
            from tasks.config.request import RunRequest

            return BadInput(problems(cause, RunRequest, Flags(_RENAMED)))
    return BadInput(_told(error), fix=f"see {' '.join(('slicebench', *(error.command_chain or ())))} --help")


def _told(error: cyclopts.CycloptsError) -> str:
    """Returns what is wrong, without what to do."""
    if isinstance(error, cyclopts.UnusedCliTokensError) and error.unused_tokens:
        return f"nothing is known to be done with: {', '.join(error.unused_tokens)}"
    if isinstance(error, cyclopts.MissingArgumentError) and error.argument is not None:
        name = error.keyword or error.argument.name
        return f"{name} needs a value" if name.startswith("-") else f"{name} is missing"
    if isinstance(error, cyclopts.CoercionError) and error.argument is not None and error.token is not None:
        if error.target_type is bool:
            return f"{error.token.keyword or error.argument.name} takes no value"
        choices = [str(choice) for choice in get_args(error.target_type)]
        kind = _KINDS.get(error.target_type) if error.target_type else None
        if wants := kind or " or ".join(choices):
            return f"{error.token.keyword or error.argument.name} must be {wants}, not {error.token.value}"
    return str(error).rstrip(".?").replace(". Did you", ", did you")


def checked_range(flag: str, value: int, least: int, most: float = math.inf) -> int:
    """Returns the value of a flag; raises BadInput when it is out of its range."""
    if least <= value <= most:
        return value
    wanted = f"at least {least}" if most == math.inf else f"between {least} and {most}"
    raise BadInput(f"{flag} must be {wanted}, not {value}")


def refuse_empty(given: Mapping[str, Any]) -> None:
    """Raises BadInput for words that are empty: a default in their place would be a surprise."""
    if empty := [name for name, value in given.items() if value == ""]:
        raise BadInput(
            f"{', '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty",
            fix="give a value, or leave it out; a shell variable that is not set looks like this",
        )
