"""Whether the TensorBoard that a target names is there: its uploader fails beside a workload that ends well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from runtime.contract.errors import InfrastructureError, Problem
from tasks.cloud.boards import Tensorboards
from tasks.cloud.timing import Timing

if TYPE_CHECKING:
    from tasks.config.gke_parts import TensorBoard

_LOOKED_UP = Timing(try_s=10.0, total_s=20.0)


def no_board(board: TensorBoard) -> Iterator[Problem]:
    """Yields that it is not there, or, as a warning, that one cannot know: whoever submits need not see it."""
    _, project, _, location, *_ = board.instance.split("/")
    why = "nothing would be uploaded, and the workload would end well all the same"
    fix = "`slicebench env up FILE --json` tells the environment's own; else write tensorboard: null"
    try:
        if Tensorboards(_LOOKED_UP, uid=board.instance).look(f"{project}/{location}", "") is None:
            yield Problem("error", None, f"there is no TensorBoard {board.instance}", why, fix)
    except InfrastructureError as error:
        what = f"whether tensorboard.instance is there is not known: {error}"
        yield Problem("warning", None, what, f"if it is not, {why}", fix)
