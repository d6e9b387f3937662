"""--verbose: every call to the outside that this process makes, on stderr."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from flows.cli.said import say

Verbose = Annotated[
    bool,
    Parameter(name="--verbose", negative="", show_default=False, help="Show every call to a service outside"),
]


def show_calls(wanted: bool) -> None:
    """Shows calls from now on, or no longer."""
    from flows.calls import tell_calls

    tell_calls(say if wanted else None)
