"""Judges a night: takes its runs into the history, says which cells to run again, and decides each series."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from runtime.contract.errors import InfrastructureError
from runtime.contract.metrics import describe
from tasks.cloud.storage import open_folder
from tasks.history.dataset.decision import LEAST
from tasks.history.dataset.groups import JUDGED_UNITS
from tasks.history.intervals import median
from tasks.history.night_told import NightTold, SeriesTold
from tasks.history.turns import Turns, judge_turns
from tasks.stages.history import rows_of_folder
from tasks.stages.nightly_record import CellEnd
from tasks.stages.nightly_run import RunEnd


class Judge(Protocol):
    """What a night needs of the history. Every method may be called again: nothing counts twice."""

    def take_in(self, cells: Sequence[CellEnd]) -> list[str]:
        """Takes the runs in; returns what could not be."""

    def suspects(self, cells: Sequence[CellEnd]) -> Mapping[str, Collection[str]]:
        """Returns the titles of cells to run again, from their first runs, each with the keys of what stands out."""

    def decide(self, cells: Sequence[CellEnd]) -> NightTold:
        """Decides every series of the night, and writes that down."""


@dataclass
class Rows:
    """What runs measured, read once each."""

    _known: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)

    def of(self, end: RunEnd) -> list[Mapping[str, Any]]:
        """Returns the measured rows of a run; none where it has none, or they cannot be read, which is a trouble."""
        if end.run_id not in self._known:
            try:
                rows = rows_of_folder(open_folder(end.folder))
            except InfrastructureError as error:
                self.troubles[end.run_id] = f"{end.run_id} is not judged: {error}"
                rows = []
            self._known[end.run_id] = [row for row in rows if row.get("series")]
        return self._known[end.run_id]


def turns_told(cells: Sequence[CellEnd], rows: Rows, thresholds: Mapping[str, float]) -> list[SeriesTold]:
    """Returns the verdicts of the cells that two versions were measured in by turns."""
    return [one for cell in cells for one in _of_turns(cell, rows, thresholds)]


def _of_turns(cell: CellEnd, rows: Rows, thresholds: Mapping[str, float]) -> list[SeriesTold]:
    sides: dict[str, dict[tuple[str, str, str], dict[int, float]]] = {"here": {}, "other": {}}
    about: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for run in cell.runs:
        for row in rows.of(run):
            metric = describe(row["metric"], row["unit"])
            if not metric.headline or row["unit"] not in JUDGED_UNITS or metric.good == "none":
                continue
            key = (row["benchmark_key"], row["operation"], row["metric"])
            about[key] = row
            sides[run.side].setdefault(key, {})[run.rerun] = median(row["values"])
    found = {}
    for key, here in sides["here"].items():
        other = sides["other"].get(key, {})
        both = sorted(here.keys() & other.keys())
        metric = describe(key[2], about[key]["unit"])
        found["/".join(key)] = Turns(
            [here[turn] for turn in both],
            [other[turn] for turn in both],
            1 if metric.good == "lower" else -1,
            thresholds.get(key[2], LEAST),
        )
    names = {"/".join(key): row for key, row in about.items()}
    return [
        SeriesTold(
            series=f"{cell.title}/{name}",
            name=" / ".join((names[name]["label"] or names[name]["benchmark"], *name.split("/")[-2:])),
            cell=cell.title,
            verdict=one.verdict,
            reason=one.reason,
            effect=one.effect,
            low=one.low,
            high=one.high,
            probability=one.probability,
        )
        for name, one in judge_turns(found).items()
    ]
