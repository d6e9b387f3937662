"""Decisions as rows of the history, each as it was made: what was decided last of a series' night counts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.history.dataset.decision import Decision
from tasks.history.dataset.latest import last_written
from tasks.history.dataset.schema import Layout, Row
from tasks.history.detection.standing import Alert, Standing
from tasks.history.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

DECISIONS = Layout(
    folder="decisions",
    columns={
        "night": "string",
        "group": "string",
        "series": "string",
        "basis": "string",
        "verdict": "string",
        "reason": "string",
        "told": "string",
        "effect": "float64",
        "low": "float64",
        "high": "float64",
        "probability": "float64",
        "window": "float64",
        "level": "float64",
        "scatter": "float64",
        "shift": "float64",
        "shift_again": "float64",
        "least": "float64",
        "standing_level": "string",
        "alert_began": "string",
        "alert_effect": "float64",
        "better": "string",
        "apart": "string",
        "written_at": "float64",
    },
    must_have=("night", "series", "basis"),
    mend="delete it: what it held is decided again",
)

_TEXTS = ("night", "group", "series", "basis", "reason", "told")
_NUMBERS = ("effect", "low", "high", "probability", "level", "scatter", "shift", "shift_again")
_MONTH = re.compile(r"\d{4}-\d{2}(?=-)")


def rows_of_decisions(decisions: Sequence[Decision], at: float) -> Mapping[str, list[Row]]:
    """Returns decisions as rows, by month. `at`: when they are written, seconds since the epoch."""
    months: dict[str, list[Row]] = {}
    for one in decisions:
        found = _MONTH.match(one.night)
        months.setdefault(found[0] if found else "unknown", []).append(_row(one, at))
    return months


def decisions_of(table: pa.Table) -> list[Decision]:
    """Returns decisions from their rows, in the order of their nights. Of two of one night the one written last."""
    rows = last_written(table, ("series", "night")).to_pylist()
    return sorted(_known(rows), key=lambda one: (one.night, one.series))


def _row(one: Decision, at: float) -> Row:
    standing = one.standing
    numbers = {name: math.nan if getattr(one, name) is None else getattr(one, name) for name in _NUMBERS}
    return {
        **{name: getattr(one, name) for name in _TEXTS},
        **numbers,
        "verdict": one.verdict.value,
        "window": float(one.window),
        "least": one.least,
        "standing_level": standing.level or "",
        "alert_began": standing.alert.began if standing.alert else "",
        "alert_effect": standing.alert.effect if standing.alert else math.nan,
        "better": json.dumps(standing.better),
        "apart": json.dumps(standing.apart),
        "written_at": at,
    }


def _known(rows: Iterable[Mapping[str, Any]]) -> Iterator[Decision]:
    """Yields what can be made of rows; a row that a newer slicebench filled with other words is as good as none."""
    for row in rows:
        try:
            numbers: dict[str, Any] = {
                name: None if math.isnan(row[name]) else row[name] for name in _NUMBERS
            }
            alert = Alert(row["alert_began"], row["alert_effect"]) if row["alert_began"] else None
            better = tuple(str(night) for night in json.loads(row["better"] or "[]"))
            apart = tuple((str(began), str(back)) for began, back in json.loads(row["apart"] or "[]"))
            texts: dict[str, Any] = {name: row[name] for name in _TEXTS}
            yield Decision(
                **texts,
                **numbers,
                verdict=Verdict(row["verdict"]),
                window=int(row["window"]),
                least=row["least"],
                standing=Standing(row["standing_level"] or None, alert, better, apart),
            )
        except (ValueError, TypeError):
            continue
