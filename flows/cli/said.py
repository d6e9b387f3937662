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
    bool, Parameter("--force", negative="", show_default=False, help="Overwrite an existing file")
]


def tell_plot(write: Callable[[], str], *, asked: bool) -> None:
    """Writes a page that goes with what is said, and says where it lies. A failure only where it was asked for."""
    try:
        say(f"plot: {write()}")
    except InfrastructureError as error:
        if asked:
            raise
        say(f"warning: no plot could be drawn: {error}")


def tell_gone(name: str, gone: Sequence[ResourceRef], json: bool, stays: Sequence[str] = ()) -> int:
    """Says that a thing and all that was made with it is given back; returns the exit code. `stays`: all but this."""
    from tasks.leases.made import told

    if json:
        found = {"name": name, "deleted": len(gone), "resources": [ref.key for ref in gone]}
        print_json(found | ({"stays": list(stays)} if stays else {}))
    else:
        given_back = f"{told(gone)} given back, " if gone else ""
        left = f"nothing is left but {' and '.join(stays)}" if stays else "nothing is left"
        say(f"{name} is gone: {given_back}{left}")
    return ExitCode.DONE
