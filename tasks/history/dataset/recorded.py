"""The series that the history holds, each with its nights as detection reads them and with what does not count. Pure.

What does not count, and why, is told beside what does: nights that somebody excluded, runs whose clock was wrong,
values in another unit than the latest ones.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.history.comparison import SMALLEST_MEMORY
from tasks.history.dataset.clocks import BACK_S, FIRST_TIME, latest_time, why_wrong
from tasks.history.dataset.garbage import untroubled_by_garbage
from tasks.history.dataset.latest import bounds, codes, numbers, order_of
from tasks.history.dataset.medians import runs_of
from tasks.history.dataset.moments import moment_name
from tasks.history.dataset.notes import Notes
from tasks.history.detection.series import Night, Run, Series
from tasks.history.intervals import median

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Seen:
    """What one run saw of a series. `run` is None where no value of it is a positive number.

    `aside` says why it does not count; empty where it does. `origin` is where the run's folder lies.
    """

    night: str
    run_id: str
    began_at: float
    run: Run | None
    values: Sequence[float]
    unit: str
    versions: Mapping[str, str]
    aside: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Hole:
    """A run that should have given a value and gave none."""

    night: str
    run_id: str
    began_at: float
    status: str
    cause: str


@dataclass(frozen=True)
class Recorded:
    """A series. `about` is its latest row without values; `nights` those that count, latest last.

    `latest` is the median of the last run that counts, in the series' unit; None where none does.
    """

    id: str
    about: Mapping[str, Any]
    nights: tuple[Night, ...]
    set_aside: int
    latest: float | None

    @property
    def name(self) -> str:
        """Returns what people call it: suite, benchmark, operation and metric."""
        told = self.about
        return " / ".join(
            (told["suite"], told["label"] or told["benchmark"], told["operation"], told["metric"])
        )

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """Returns what its runs have in common of machine, devices and storage."""
        found: Mapping[str, str] = json.loads(self.about["fingerprint"] or "{}")
        return found

    @property
    def series(self) -> Series:
        """Returns what detection reads, where nothing is known of alerts and levels."""
        return Series(self.nights)


class Records:
    """All that the history holds, as series. `table`: as `Stored.rows` gives it; `now`: seconds since the epoch.

    A row is a number here: its place among those that count, by series, then in the order in which runs began.
    """

    def __init__(self, table: pa.Table, notes: Notes, now: float) -> None:
        self._table = table
        self._order = order_of(table)
        self._notes = notes
        self._now = now
        self._bounds = bounds(codes(table, "series")[self._order])
        self._mentioned = {note.night for note in notes.notes if note.kind in ("exclude", "include")}

    @cached_property
    def series(self) -> Mapping[str, Recorded]:
        """Returns every series by its id."""
        names = self._texts("series")
        with untroubled_by_garbage():
            return {names[first]: self._recorded(names[first], first, last) for first, last in self._measured}

    @property
    def night_names(self) -> set[str]:
        """Returns all names by which a night is known: its own, and the ids of its runs."""
        return {*self._names, *self._texts("run_id")}

    def called(self, night: str) -> set[tuple[str, str]]:
        """Returns the runs that go by this name, which is a night's or a run's: each by its night and its id."""
        runs = zip(self._names, self._texts("run_id"), strict=True)
        return {run for run in runs if night in run}

    def seen(self, series: str) -> list[Seen]:
        """Returns what each run saw of a series, in the order of the nights: also what does not count."""
        first, last = next(
            (bounds for bounds in self._measured if self._texts("series")[bounds[0]] == series), (0, 0)
        )
        told = self._rows(range(first, last))
        found = [
            Seen(
                night=self._names[row],
                run_id=self._texts("run_id")[row],
                began_at=float(self._began[row]),
                run=self._runs[row],
                values=told[row - first]["values"],
                unit=told[row - first]["unit"],
                versions=json.loads(told[row - first]["versions"] or "{}"),
                aside=self._aside(series, row),
                origin=self._texts("origin")[row],
            )
            for row in range(first, last)
        ]
        return sorted(found, key=lambda one: (one.night, one.began_at))

    def holes(self, recorded: Recorded) -> list[Hole]:
        """Returns the runs that should have given a value of the series and gave none, in nights that have none."""
        about, nights = recorded.about, {night.name for night in recorded.nights}
        found = []
        for row in self._unmeasured:
            own = row["benchmark_key"] == about["benchmark_key"] and row["target"] == about["target"]
            whole_run = not row["benchmark_key"] and all(
                row[name] == about[name] for name in ("suite", "target")
            )
            if row["track"] == about["track"] and (own or whole_run) and row["name"] not in nights:
                found.append(Hole(row["name"], row["run_id"], row["began_at"], row["status"], row["cause"]))
        return sorted(found, key=lambda hole: (hole.night, hole.began_at))

    @cached_property
    def _measured(self) -> list[tuple[int, int]]:
        names = self._texts("series")
        return [bounds for bounds in self._bounds if names[bounds[0]]]

    @cached_property
    def _unmeasured(self) -> list[dict[str, Any]]:
        names = self._texts("series")
        rows = [row for first, last in self._bounds if not names[first] for row in range(first, last)]
        return [{**told, "name": self._names[row]} for row, told in zip(rows, self._rows(rows), strict=True)]

    @cached_property
    def _began(self) -> NDArray[np.float64]:
        return numbers(self._table, "began_at")[self._order]

    @cached_property
    def _collected(self) -> NDArray[np.float64]:
        return numbers(self._table, "collected_at")[self._order]

    @cached_property
    def _runs(self) -> Sequence[Run | None]:
        least = [SMALLEST_MEMORY if unit == "bytes" else 0.0 for unit in self._texts("unit")]
        return runs_of(*self._lists, np.asarray(least))

    @cached_property
    def _lists(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Returns the values of all rows, and where those of each begin, and how many they are."""
        values = self._table.column("values").combine_chunks()
        offsets = np.from_dlpack(values.offsets).astype(np.int64)
        begins = (offsets - offsets[0])[self._order]
        flat = values.flatten()
        # Others than slicebench write nulls for NaN: neither is a value of it. Telling them apart imports pandas.
        told = flat.to_numpy(zero_copy_only=False) if flat.null_count else np.from_dlpack(flat)
        return told.astype(np.float64, copy=False), begins, np.diff(offsets)[self._order]

    def _values(self, row: int) -> NDArray[np.float64]:
        values, begins, lengths = self._lists
        return values[begins[row] : begins[row] + lengths[row]]

    def _rows(self, rows: Iterable[int]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [
            self._table.slice(int(self._order[row]), 1).to_pylist()[0] for row in rows
        ]
        return found

    @cached_property
    def _names(self) -> Sequence[str]:
        """Returns the name of each row's night: where a run belongs to none, when it began."""
        nights = self._texts("night")
        return (
            nights
            if all(nights)
            else [night or moment_name(at) for night, at in zip(nights, self._began, strict=True)]
        )

    @cached_property
    def _wrong_clock(self) -> NDArray[np.bool_]:
        began, late = self._began, self._began > latest_time(self._now)
        wrong: NDArray[np.bool_] = ~(began >= FIRST_TIME) | late | (self._collected < began - BACK_S)
        return wrong

    @cached_property
    def _other_unit(self) -> NDArray[np.bool_]:
        units = codes(self._table, "unit")[self._order]
        other = np.zeros(len(units), dtype=np.bool_)
        for first, last in self._measured:
            other[first:last] = units[first:last] != units[last - 1]
        return other

    def _recorded(self, series: str, first: int, last: int) -> Recorded:
        about = {name: found for name, found in self._rows([last - 1])[0].items() if name != "values"}
        # A run of some benchmarks alone does not say what they are called: the last one of all does.
        about["label"] = about["label"] or next(filter(None, reversed(self._texts("label")[first:last])), "")
        names, runs = self._names[first:last], self._runs[first:last]
        known = [run for run in runs if run is not None]
        simple = len(known) == len(runs) and all(map(operator.lt, names, names[1:]))
        if simple and not self._doubtful[first:last].any():  # as nearly always: each run is a night
            nights = tuple(map(Night, names, zip(known, strict=True)))
            return Recorded(series, about, nights, 0, middle(self._values(last - 1)))
        counting: dict[str, list[int]] = {}
        aside = 0
        for row in range(first, last):
            if self._doubtful[row] and self._aside(series, row):
                aside += 1
            elif self._runs[row] is not None:
                counting.setdefault(self._names[row], []).append(row)
        nights = tuple(
            Night(name, tuple(run for row in counting[name] if (run := self._runs[row])))
            for name in sorted(counting)
        )
        latest = middle(self._values(counting[nights[-1].name][-1])) if nights else None
        return Recorded(series, about, nights, aside, latest)

    @cached_property
    def _doubtful(self) -> NDArray[np.bool_]:
        """Says of each row whether it may be that it does not count; `_aside` says whether, and why."""
        found = self._wrong_clock | self._other_unit
        if self._mentioned:
            runs, names = self._texts("run_id"), self._names
            said = (
                not {run, name}.isdisjoint(self._mentioned) for run, name in zip(runs, names, strict=True)
            )
            found = found | np.fromiter(said, dtype=np.bool_, count=len(runs))
        return found

    def _aside(self, series: str, row: int) -> str:
        """Returns why a row does not count; empty when it does."""
        names = (self._names[row], self._texts("run_id")[row])
        if self._mentioned and (note := self._notes.excluded(series, names)):
            return note.words
        if self._wrong_clock[row]:
            collected = float(self._collected[row])
            return f"its clock was wrong: {why_wrong(float(self._began[row]), collected, self._now)}"
        if self._other_unit[row]:
            units, last = self._texts("unit"), next(end for _, end in self._bounds if row < end) - 1
            return f"it is in {units[row]}, the latest in {units[last]}"
        return ""

    def _texts(self, name: str) -> Sequence[str]:
        if name not in self._decoded:
            column = self._table.column(name).combine_chunks()
            words = np.asarray(column.dictionary.to_pylist(), dtype=object)
            self._decoded[name] = (
                words[np.from_dlpack(column.indices)][self._order].tolist() if len(words) else []
            )
        return self._decoded[name]

    @cached_property
    def _decoded(self) -> dict[str, list[str]]:
        return {}


def middle(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Returns the median of those values that are numbers, at least one."""
    told = np.asarray(values)
    return median(told[np.isfinite(told)])
