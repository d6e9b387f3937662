"""Goes through the nights of all machines and decides each: what changed, which alerts are open, which level holds.

Pure. What was decided before is taken over where it rests on the same values and the same standing; else the night is
decided anew. So a night that is excluded afterwards changes the verdicts of the nights that had counted it, and of
those that stand differently because of them; an ordinary night costs the decision of that night alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.history.dataset.decision import Decision, told_of, verdict_of
from tasks.history.dataset.groups import DIGEST, Group
from tasks.history.dataset.of_machine import machine_after, machine_decision, name_of_machine, taken_of
from tasks.history.detection.baseline import MOST_NIGHTS, baseline_of
from tasks.history.detection.evidence import GUARD
from tasks.history.detection.evidence import before as nights_before
from tasks.history.detection.machine import Machine, Taken, freed
from tasks.history.detection.night import AllSeries, Machines, Shown, decide
from tasks.history.detection.series import Series
from tasks.history.detection.standing import Standing, after, series_of
from tasks.history.intervals import t_quantile

RULES = 5
"""Grows with what decides: what older rules decided is decided anew."""


def fold(
    judged: Mapping[str, Group],
    known: Iterable[Decision] = (),
    *,
    before: str | None = None,
    most: int | None = None,
) -> list[Decision]:
    """Returns the decisions of all nights in order; with `before` of those before that night.

    `known`: what was decided earlier. `most`: of how many nights, the latest, where nothing is known. False discoveries
    are controlled over all groups that are given.
    """
    return _folded(judged, known, before, most)[0]


@dataclass(frozen=True)
class Tonight:
    """What a night's runs are to be judged by: of each group the series that have one, and where its machine stands."""

    series: AllSeries
    machines: Machines


def tonight(judged: Mapping[str, Group], night: str, known: Iterable[Decision] = ()) -> Tonight:
    """Returns what a night's runs are to be judged by: for `suspects`."""
    _, past = _folded(judged, known, night, None)
    there = {name: _standings(group, night, past.standings) for name, group in judged.items()}
    series = {
        name: _series(judged[name], night, found, past.taken.get(name, {}))
        for name, found in there.items()
        if found
    }
    return Tonight(series, past.machines)


@dataclass(frozen=True)
class _Past:
    """Where series and machines stand after the nights so far, and what these were freed of, by group and night."""

    standings: dict[str, Standing]
    machines: dict[str, Machine]
    taken: dict[str, dict[str, Taken]]

    def basis(self, group: Group, night: str, there: Mapping[str, Standing]) -> str:
        """Returns a digest of all that a night's decisions of a group rest on."""
        told = [self.machines.get(group.name), night in group.accepted, self.taken.get(group.name)]
        return _basis(group, night, there, repr(told) if any(told) else "")

    def add(self, group: str, night: str, decisions: Mapping[str, Decision]) -> None:
        """Takes in what was decided of a group in a night."""
        self.standings.update({name: one.standing for name, one in decisions.items()})
        taken = taken_of(decisions)
        if any(taken):
            self.taken.setdefault(group, {})[night] = taken
        if of_machine := decisions.get(name_of_machine(group)):
            before = self.machines.get(group, Machine())
            self.machines[group] = machine_after(before, of_machine, taken)


def _folded(
    judged: Mapping[str, Group], known: Iterable[Decision], before: str | None, most: int | None
) -> tuple[list[Decision], _Past]:
    of_night: dict[tuple[str, str], dict[str, Decision]] = {}
    for one in known:
        of_night.setdefault((one.night, one.group), {})[one.series] = one
    nights = sorted(
        {night for group in judged.values() for night in group.nights if not before or night < before}
    )
    first = nights[-most] if most is not None and len(nights) > most else ""
    past = _Past({}, {}, {})
    decisions: list[Decision] = []
    for night in nights:
        there = {
            name: found for name, one in judged.items() if (found := _standings(one, night, past.standings))
        }
        basis = {name: past.basis(judged[name], night, found) for name, found in there.items()}
        stand = {
            name: _taken_over(of_night.get((night, name), {}), basis[name], found, name_of_machine(name))
            for name, found in there.items()
        }
        if night >= first and any(one is None for one in stand.values()):
            series = {
                name: _series(judged[name], night, found, past.taken.get(name, {}))
                for name, found in there.items()
            }
            shown = decide(series, past.machines)
            for name in [name for name, one in stand.items() if one is None]:
                machine = past.machines.get(name, Machine())
                left = {one: past.standings.get(one, Standing()) for one in there[name]}
                stand[name] = _decided(
                    judged[name], night, there[name], left, shown[name], machine, basis[name]
                )
        for name, made in stand.items():
            if made is not None:
                past.add(name, night, {one.series: one for one in made})
                decisions += made
    return decisions, past


def _taken_over(
    found: Mapping[str, Decision], basis: str, there: Mapping[str, Standing], machine: str
) -> list[Decision] | None:
    """Returns what was decided of a group in a night; None where it was not, or rests on something else."""
    if all(series in found and found[series].basis == basis for series in there):
        of_machine = [found[machine]] if machine in found and found[machine].basis == basis else []
        return [*(found[series] for series in there), *of_machine]
    return None


def _basis(group: Group, night: str, series: Mapping[str, Standing], machine: str) -> str:
    """Returns a digest of all that a night's decisions rest on: where each series stood, and the nights that count.

    `machine`: where the machine stood, and what it was off by in earlier nights.
    """
    digest = hashlib.sha256(f"{RULES} {night} {machine}".encode())
    for name in sorted(series):
        member, standing = group.members[name], series[name]
        last = member.places[night]
        since = standing.alert.began if standing.alert else next(iter(standing.better), night)
        apart = sum(
            member.places.get(back, last) - member.places.get(began, 0) for began, back in standing.apart
        )
        first = max(0, min(last - GUARD, member.places.get(since, last)) - MOST_NIGHTS - apart)
        digest.update(f"{name} {standing} {member.least}".encode())
        digest.update(member.digests[DIGEST * first : DIGEST * (last + 1)])
    return digest.hexdigest()[:16]


def _standings(group: Group, night: str, known: Mapping[str, Standing]) -> dict[str, Standing]:
    """Returns where each series with a value in a night stands as it begins: where a person said so, at a new level."""
    return {
        name: Standing(level=night) if night in member.accepted else known.get(name, Standing())
        for name, member in group.members.items()
        if night in member.places
    }


def _series(
    group: Group, night: str, standings: Mapping[str, Standing], taken: Mapping[str, Taken]
) -> dict[str, Series]:
    found = {}
    for name, standing in standings.items():
        member = group.members[name]
        nights = freed(member.recorded.nights[: member.places[night] + 1], taken)
        found[name] = series_of(nights, standing, math.log1p(member.least))
    return found


def _decided(
    group: Group,
    night: str,
    standings: Mapping[str, Standing],
    left: Mapping[str, Standing],
    shown: Shown,
    machine: Machine,
    basis: str,
) -> list[Decision]:
    """`left`: where each series stood before somebody said anything of this night."""
    decisions = [
        _decision(group, night, name, (left[name], before), shown, basis)
        for name, before in standings.items()
    ]
    of_machine = machine_decision(group.name, night, basis, machine, shown, accept=night in group.accepted)
    return [*decisions, of_machine] if of_machine else decisions


def _decision(
    group: Group, night: str, name: str, stood: tuple[Standing, Standing], shown: Shown, basis: str
) -> Decision:
    left, before = stood
    finding, series, worse = shown.findings[name], shown.series[name], group.members[name].worse
    standing = after(before, series, finding, worse)
    verdict, reason = verdict_of(standing, finding, worse, series, night)
    baseline, found = finding.baseline, finding.evidence
    effect = reach = None
    if baseline and found:
        runs = sum(len(one.runs) for one in series.nights[-found.window :])
        scatter = math.sqrt(baseline.variance * (1 / runs + 1 / baseline.nights))
        effect, reach = found.effect, t_quantile(baseline.degrees) * scatter
    elif before.level == night:
        effect, reach = _from_level(series, left)
    taken = shown.together.taken
    centre = (
        baseline.centre if baseline else series.nights[-1].settled.centre if before.level == night else None
    )
    return Decision(
        night=night,
        group=group.name,
        series=name,
        basis=basis,
        verdict=verdict,
        reason=reason,
        standing=standing,
        effect=None if effect is None else math.expm1(effect),
        low=None if effect is None or reach is None else math.expm1(effect - reach),
        high=None if effect is None or reach is None else math.expm1(effect + reach),
        probability=found.probability if found else None,
        window=found.window if found else 0,
        level=None if centre is None else math.exp(centre + taken.again),
        scatter=math.expm1(math.sqrt(baseline.variance)) if baseline else None,
        shift=math.expm1(taken.first) if any(taken) else None,
        shift_again=math.expm1(taken.again) if any(taken) else None,
        told=told_of(before, standing, finding, worse, night),
        least=group.members[name].least,
    )


def _from_level(series: Series, left: Standing) -> tuple[float, float] | tuple[None, None]:
    """Returns how far the first night of an accepted level is from the one that it leaves, and how sure that is."""
    held = series_of((*series.earlier, *series.nights), left)
    baseline = baseline_of(nights_before(held), held.earlier)
    if baseline is None:
        return None, None
    runs = [run.centre for run in series.nights[-1].runs]
    scatter = math.sqrt(baseline.variance * (1 / len(runs) + 1 / baseline.nights))
    return sum(runs) / len(runs) - baseline.centre, t_quantile(baseline.degrees) * scatter
