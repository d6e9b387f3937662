"""What commands that speak have in common: --json, and the two ways to speak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.said import print_json as print_json
from flows.said import say as say
from flows.said import surely as surely
from runtime.contract.errors import ExitCode, InfrastructureError

if TYPE_CHECKING:
    from tasks.leases.resource import ResourceRef

Json = Annotated[
    bool, Parameter(name="--json", negative="", show_default=False, help="Print one JSON object on stdout")
]
Over = Annotated[
    bool, Parameter("--force", negative="", show_default=False, help="Write over the file that is there")
]


def tell_plot(write: Callable[[], str], *, asked: bool) -> None:
    """Writes a page that goes with what is said, and says where it lies. A failure only where it was asked for."""
    try:
        say(f"plot: {write()}")
    except InfrastructureError as error:
        if asked:
            raise
        say(f"warning: no plot could be drawn: {error}")


def tell_gone(name: str, gone: Sequence[ResourceRef], json: bool) -> int:
    """Says that a thing and all that was made with it is given back; returns the exit code."""
    from tasks.leases.made import told

    if json:
        print_json({"name": name, "deleted": len(gone), "resources": [ref.key for ref in gone]})
    elif gone:
        say(f"{name} is gone: {told(gone)} given back, nothing is left")
    else:
        say(f"{name} is gone: nothing is left")
    return ExitCode.DONE
