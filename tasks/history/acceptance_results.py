"""What an attempt of the training benchmark gave, as a start of an acceptance: from its samples. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from runtime.contract.metrics import LOSS, RECOVERY, STEP, TIME
from tasks.history.acceptance import Start
from tasks.history.measurement import Measurement

_RESTORES = ("restore_after_restart", "restore")


def start_of(measurements: Iterable[Measurement], newest: int | None = None) -> Start:
    """Returns what was measured of one point in one attempt. `newest`: the newest step that was complete before it."""
    found = {(one.operation, one.metric): one for one in measurements}
    saves = found.get(("save", "complete_after_s")) or found.get(("save", TIME))
    return Start(
        saves=_seconds(saves),
        restores=tuple(seconds for name in _RESTORES for seconds in _seconds(found.get((name, TIME)))),
        losses=_losses(found),
        newest=newest,
        resumed=_resumed(found),
    )


def _seconds(one: Measurement | None) -> tuple[float, ...]:
    return () if one is None else tuple(float(value) for value in one.combined("max"))


def _losses(found: Mapping[tuple[str, str], Measurement]) -> dict[int, float]:
    """Returns losses by step: which step a loss is of stands beside it, in a sample of its own."""
    losses: dict[int, float] = {}
    for (operation, metric), one in found.items():
        steps = found.get((operation, STEP))
        if metric == LOSS and steps is not None and len(steps.values) == len(one.values):
            for step, loss in zip(_first(steps), _first(one), strict=True):
                losses[int(step)] = float(loss)
    return dict(sorted(losses.items()))


def _first(one: Measurement) -> list[float]:
    """Returns of each observation the value of the first worker that gave one: all have the same."""
    return [float(row[~np.isnan(row)][0]) for row in one.values]


def _resumed(found: Mapping[tuple[str, str], Measurement]) -> int | None:
    for operation in ("restore_after_restart", RECOVERY):
        one = found.get((operation, "resumed_from_step"))
        if one is not None and len(values := one.combined("max")):
            return int(values[0])
    return None
