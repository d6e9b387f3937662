"""What is wrong after a night, and what is right again, as alerts count it."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.history.alerts import Event, Wrong, open_alerts
from tasks.history.night_told import NightTold
from tasks.history.verdict import Verdict
from tasks.stages.nightly_record import CellEnd, NightRecord

_SERIES, _CELL = "series/", "cell/"


def wrong_in(record: NightRecord) -> list[Wrong]:
    """Returns every series that is worse than before, and every cell that failed or did not run."""
    series = [
        Wrong(
            _SERIES + one.series,
            "regressed",
            f"{one.name} ({one.cell})",
            one.reason,
            one.since or record.night,
            one.effect,
        )
        for one in record.regressed
    ]
    cells = [
        Wrong(
            _key(cell),
            "failed" if cell.status == "failed" else "not_run",
            cell.title,
            cell.cause,
            record.night,
        )
        for cell in record.cells
        if cell.status != "passed"
    ]
    return [*series, *cells]


def right_again(record: NightRecord, events: Sequence[Event]) -> dict[str, str]:
    """Returns what is known to be right, by key, with a word on why."""
    told = record.told or NightTold()
    right = {
        _SERIES + one.series: one.reason
        for one in told.series
        if one.verdict in (Verdict.PASS, Verdict.IMPROVED)
    }
    right |= {_SERIES + name: why for name, why in told.right.items()}
    right |= {_key(cell): "it ran" for cell in record.cells if cell.status == "passed"}
    measured = {_key(cell) for cell in record.cells}
    if not record.missing:
        for key in open_alerts(events):
            if key.startswith(_CELL) and key not in measured:
                right[key] = "it is no longer part of the nightly"
    return right


def _key(cell: CellEnd) -> str:
    return _CELL + "|".join((cell.suite, cell.target, cell.version))
