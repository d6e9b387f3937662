"""The Judge of a night that asks the history: it takes runs in, finds suspects, and decides with all nights before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tasks.cloud.storage import open_folder
from tasks.history.dataset.decision import Decision
from tasks.history.dataset.fold import fold, tonight
from tasks.history.dataset.groups import Group, unmeasured
from tasks.history.dataset.lines import value_of, versions_changed
from tasks.history.dataset.of_machine import name_of_machine
from tasks.history.dataset.recorded import Recorded, Records
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

_FORGOTTEN_S = 14 * 86400.0
"""What nobody measured for so long is not waited for: on another machine, say, it is another series."""


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
        now = tonight(judged, self.night, known)
        for series in suspects(now.series, now.machines):
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
        now = [one for one in decisions if one.night == self.night]
        of_tonight = [one for one in now if one.series in known_as]
        machines = {name_of_machine(name): group for name, group in judged.items()}
        of_machines = [one for one in now if one.series in machines]
        turns = turns_told([cell for cell in cells if _takes_turns(cell)], self._rows, self.thresholds)
        return NightTold(
            [
                *(_whole(one, machines[one.series], looked.records) for one in of_machines),
                *(_told(one, known_as[one.series], owners[one.series].title) for one in of_tonight),
                *turns,
            ],
            list(_shifts([(one, machines[one.series]) for one in of_machines])),
            {
                **_forgotten(groups_of(looked, self.thresholds), cells),
                **{one.series: _why_right(one) for one in _latest(decisions) if one.standing.alert is None},
            },
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


def _forgotten(groups: Mapping[str, Group], cells: Sequence[CellEnd]) -> dict[str, str]:
    """Returns what nobody measures any more, where every cell ran: no night will show what became of it."""
    began = [run.began_at for cell in cells for run in cell.runs if run.began_at is not None]
    if not began or any(cell.status != "passed" for cell in cells):
        return {}
    return dict.fromkeys(unmeasured(groups, max(began) - _FORGOTTEN_S), "it was not measured for two weeks")


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
        open=one.is_open,
    )


def _whole(one: Decision, group: Group, records: Records) -> SeriesTold:
    """Returns what is told of a whole machine, by the name under which a person can accept it."""
    alert = one.standing.alert
    window = one.window if alert and alert.began == one.night else 2
    changed = _versions(group, records, alert.began, window) if alert else ""
    return SeriesTold(
        series=one.series,
        name=group.title,
        cell=one.series,
        verdict=one.verdict,
        reason=f"{one.reason}, with {changed}" if changed else one.reason,
        effect=one.effect,
        low=one.low,
        high=one.high,
        told=one.told,
        since=alert.began if alert else "",
        whole=True,
        open=one.is_open,
    )


def _versions(group: Group, records: Records, night: str, window: int) -> str:
    """Returns which versions changed within a few nights that end with one, as a series of the machine saw them."""
    for name, member in group.members.items():
        nights = [one.name for one in member.recorded.nights]
        if night in nights:
            return versions_changed(records.seen(name), nights, night, window)
    return ""


def _shifts(machines: Sequence[tuple[Decision, Group]]) -> Iterator[str]:
    """Yields what whole machines were off by."""
    off = [(one, group, one.effect) for one, group in machines if one.effect is not None]
    for one, group, by in off:
        about, where = (found := next(iter(group.members.values())).recorded).about, found.fingerprint
        machine = f"{about['target']} ({where.get('host', 'unknown')}, {about['track']})"
        yield (
            f"Nearly all series of {machine} were off by {percent(by)} together ({one.series}): it is told of the "
            "machine and not of each of them. Each was judged by what it differs beyond that."
        )
    if len({group.name.partition("/")[0] for _, group, _ in off}) > 1:
        yield (
            "More than one machine was off in this night: it may be what they share, the versions or the storage."
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
