"""What commands that speak have in common: --json, and the two ways to speak."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from flows.said import print_json as print_json
from flows.said import say as say
from runtime.contract.counting import counted
from runtime.contract.errors import ExitCode

Json = Annotated[
    bool, Parameter(name="--json", negative="", show_default=False, help="Print one JSON object on stdout")
]


def tell_gone(name: str, gone: int, json: bool) -> int:
    """Says that a thing and all that was made with it is given back; returns the exit code."""
    if json:
        print_json({"name": name, "deleted": gone})
    else:
        say(f"{name} is gone: {counted(gone, 'thing')} given back, nothing is left")
    return ExitCode.DONE
