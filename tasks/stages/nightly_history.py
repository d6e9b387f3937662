"""The Judge of a night that asks the history: it takes runs in, finds suspects, and decides with all nights before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tasks.cloud.storage import open_folder
from tasks.history.dataset.decision import Decision
from tasks.history.dataset.fold import Group, fold, tonight
from tasks.history.dataset.lines import value_of
from tasks.history.dataset.recorded import Recorded
from tasks.history.dataset.store import Dataset
from tasks.history.detection.night import suspects
from tasks.history.night_told import NightTold, SeriesTold
from tasks.history.quantities import percent
from tasks.history.report.spark import MOST
from tasks.history.verdict import Verdict
from tasks.stages.history import groups_of, look, read_decisions, take_in_run, write_decisions
from tasks.stages.nightly_judge import Rows, turns_told
from tasks.stages.nightly_record import CellEnd

_MOST_NIGHTS = 90
"""Of a history that was never judged, so many nights are."""


@dataclass
class HistoryJudge:
    """`night`: its name in the history. `thresholds`: the smallest change that counts, by metric, as a fraction."""

    dataset: Dataset
    night: str
    thresholds: Mapping[str, float]
    _rows: Rows = field(default_factory=Rows)

    def take_in(self, cells: Sequence[CellEnd]) -> list[str]:
        """Takes in every run that left a folder; a run that recorded itself is there already."""
        told = []
        for run in (run for cell in cells for run in cell.runs if run.began_at is not None):
            taken = take_in_run(self.dataset, open_folder(run.folder))
            if taken.why_not:
                told.append(f"{run.run_id} is not in the history: {taken.why_not}")
        return told

    def suspects(self, cells: Sequence[CellEnd]) -> Mapping[str, Collection[str]]:
        """Returns the titles of cells with series whose first run stands out, and the keys of those benchmarks."""
        owners = self._owners(cells)
        known, _ = read_decisions(self.dataset)
        judged = self._groups(owners)
        members = {name: one for group in judged.values() for name, one in group.members.items()}
        found: dict[str, set[str]] = {}
        for series in suspects(tonight(judged, self.night, known)):
            if series in owners:
                key = members[series].recorded.about["benchmark_key"]
                found.setdefault(owners[series].title, set()).add(key)
        return found

    def decide(self, cells: Sequence[CellEnd]) -> NightTold:
        """Decides the series of the night, and those before it that were never decided."""
        owners = self._owners(cells)
        known, unread = read_decisions(self.dataset)
        looked = look(self.dataset)
        judged = self._groups(owners)
        decisions = fold(judged, known, most=_MOST_NIGHTS)
        told_before = set(map(_identity, known))
        write_decisions(self.dataset, [one for one in decisions if _identity(one) not in told_before])
        known_as = {name: one for name, one in looked.records.series.items() if name in owners}
        of_tonight = [one for one in decisions if one.night == self.night and one.series in known_as]
        turns = turns_told([cell for cell in cells if _takes_turns(cell)], self._rows, self.thresholds)
        return NightTold(
            [*(_told(one, known_as[one.series], owners[one.series].title) for one in of_tonight), *turns],
            list(_shifts(of_tonight, judged)),
            {one.series: _why_right(one) for one in _latest(decisions) if one.standing.alert is None},
            [*self._rows.troubles.values(), *unread, *looked.troubles],
        )

    def _groups(self, owners: Mapping[str, CellEnd]) -> dict[str, Group]:
        """Returns the groups that a night's series are judged in."""
        groups = groups_of(look(self.dataset), self.thresholds)
        return {name: group for name, group in groups.items() if owners.keys() & group.members.keys()}

    def _owners(self, cells: Sequence[CellEnd]) -> dict[str, CellEnd]:
        """Returns which cell each series of tonight is of, by the series' name in the history."""
        return {
            row["series"]: cell
            for cell in cells
            if not _takes_turns(cell)
            for run in cell.runs
            for row in self._rows.of(run)
        }


def _takes_turns(cell: CellEnd) -> bool:
    return any(run.side == "other" for run in cell.runs)


def _identity(one: Decision) -> tuple[str, str, str]:
    return one.night, one.series, one.basis


def _told(one: Decision, recorded: Recorded, cell: str) -> SeriesTold:
    return SeriesTold(
        series=one.series,
        name=recorded.name,
        cell=cell,
        verdict=one.verdict,
        reason=one.reason,
        effect=one.effect,
        low=one.low,
        high=one.high,
        probability=one.probability,
        told=one.told,
        since=one.standing.alert.began if one.standing.alert else "",
        unit=recorded.about["unit"],
        recent=[float(f"{value_of(night.settled.centre):.6g}") for night in recorded.nights[-MOST:]],
        level=one.level,
    )


def _shifts(decisions: Sequence[Decision], groups: Mapping[str, Group]) -> Iterator[str]:
    """Yields what whole machines were off by."""
    for name, group in groups.items():
        off = next((one.shift for one in decisions if one.group == name and one.shift is not None), None)
        if off is not None:
            member = next(iter(group.members.values()))
            about, where = member.recorded.about, member.recorded.fingerprint
            machine = f"{about['target']} ({where.get('host', 'unknown')}, {about['track']})"
            yield (
                f"Nearly all series of {machine} were off by {percent(off)} together: something about the machine, "
                "not about one of them. Each was judged by what it differs beyond that."
            )


def _latest(decisions: Sequence[Decision]) -> list[Decision]:
    last = {one.series: one for one in decisions}
    return list(last.values())


def _why_right(one: Decision) -> str:
    if one.told == "recovered":
        return "back at its level, two runs in a row"
    if one.told == "new level" or one.verdict is Verdict.NO_BASELINE:
        return "what it is now is what is expected of it"
    return "no change is to be seen any more"
