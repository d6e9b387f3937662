"""Goes through the nights of all machines and decides each: what changed, which alerts are open, which level holds.

Pure. What was decided before is taken over where it rests on the same values and the same standing; else the night is
decided anew. So a night that is excluded afterwards changes the verdicts of the nights that had counted it, and of
those that stand differently because of them; an ordinary night costs the decision of that night alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from runtime.contract.metrics import describe
from tasks.history.dataset.decision import LEAST, Decision, told_of, verdict_of
from tasks.history.dataset.recorded import Recorded, Records
from tasks.history.detection.baseline import MOST_NIGHTS
from tasks.history.detection.evidence import GUARD
from tasks.history.detection.night import Change, Outcome, decide
from tasks.history.detection.series import Night, Series
from tasks.history.detection.standing import Standing, after, series_of
from tasks.history.intervals import t_quantile

RULES = 1
"""Grows with what decides: what older rules decided is decided anew."""

JUDGED_UNITS = ("s", "bytes")
"""Throughputs and ratios follow from what is measured in these, and would count twice."""

_DIGEST = 8


@dataclass(frozen=True)
class Member:
    """A series of a group. `worse`: the side to which it gets worse; `accepted`: nights that begin a new level.

    `least`: the smallest change that counts, a fraction.
    """

    recorded: Recorded
    worse: Change
    accepted: frozenset[str] = frozenset()
    least: float = LEAST

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Returns where each night stands among its nights."""
        return {night.name: place for place, night in enumerate(self.recorded.nights)}

    @cached_property
    def digests(self) -> bytes:
        """Returns a digest of each night's values, one after the other."""
        return b"".join(_digest(night) for night in self.recorded.nights)


@dataclass(frozen=True)
class Group:
    """The series of one machine and one track, which are decided together: they share good and bad nights."""

    name: str
    members: Mapping[str, Member]

    @cached_property
    def nights(self) -> Sequence[str]:
        """Returns the names of all nights, the latest last."""
        return sorted({night for member in self.members.values() for night in member.places})


def groups(
    records: Records,
    accepted: Mapping[str, frozenset[str]] | None = None,
    least: Mapping[str, float] | None = None,
) -> Mapping[str, Group]:
    """Returns all judged series by group. `accepted`: of a series the nights that begin a new level.

    `least`: of a metric the smallest change that counts, a fraction.
    """
    found: dict[str, dict[str, Member]] = {}
    for one in records.series.values():
        about = one.about
        metric = describe(about["metric"], about["unit"])
        if not metric.headline or about["unit"] not in JUDGED_UNITS or metric.good == "none":
            continue
        worse = Change.UP if metric.good == "lower" else Change.DOWN
        counts = (least or {}).get(about["metric"], LEAST)
        member = Member(one, worse, (accepted or {}).get(one.id, frozenset()), counts)
        found.setdefault(group_of(one), {})[one.id] = member
    return {name: Group(name, members) for name, members in found.items()}


def group_of(one: Recorded) -> str:
    """Returns the name of the group that a series is decided in."""
    return f"{one.about['machine']}/{one.about['track']}"


def narrowed(group: Group, series: str, known: Iterable[Decision], nights: int, most: int) -> Group:
    """Returns a group that its latest nights can be decided of in a moment: whole, or one series and some others.

    `most`: how many decisions may have to be made, of `nights`. The others tell what is common to all of them.
    """
    decided = {one.night for one in known if one.group == group.name}
    missing = [night for night in group.nights[-nights:] if night not in decided]
    if len(missing) * len(group.members) <= most:
        return group
    others = [name for name in sorted(group.members) if name != series][: max(8, most // nights)]
    return Group(group.name, {name: group.members[name] for name in (series, *others)})


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
    of_night: dict[tuple[str, str], dict[str, Decision]] = {}
    for one in known:
        of_night.setdefault((one.night, one.group), {})[one.series] = one
    nights = sorted(
        {night for group in judged.values() for night in group.nights if not before or night < before}
    )
    first = nights[-most] if most is not None and len(nights) > most else ""
    standings: dict[str, Standing] = {}
    decisions: list[Decision] = []
    for night in nights:
        there = {name: found for name, one in judged.items() if (found := _standings(one, night, standings))}
        basis = {name: _basis(judged[name], night, found) for name, found in there.items()}
        stand = {
            name: _taken_over(of_night.get((night, name), {}), basis[name], there[name]) for name in there
        }
        if night >= first and any(one is None for one in stand.values()):
            outcome = decide({name: _series(judged[name], night, found) for name, found in there.items()})
            stand = {
                name: one
                if one is not None
                else _decided(judged[name], night, there[name], outcome, basis[name])
                for name, one in stand.items()
            }
        tonight = [decision for one in stand.values() for decision in one or ()]
        standings |= {one.series: one.standing for one in tonight}
        decisions += tonight
    return decisions


def tonight(
    judged: Mapping[str, Group], night: str, known: Iterable[Decision] = ()
) -> Mapping[str, Mapping[str, Series]]:
    """Returns what a night's runs are to be judged by, of each group and series that has one: for `suspects`."""
    standings = {one.series: one.standing for one in fold(judged, known, before=night)}
    there = {name: _standings(group, night, standings) for name, group in judged.items()}
    return {name: _series(judged[name], night, found) for name, found in there.items() if found}


def _taken_over(
    found: Mapping[str, Decision], basis: str, there: Mapping[str, Standing]
) -> list[Decision] | None:
    """Returns what was decided of a group in a night; None where it was not, or rests on something else."""
    if all(series in found and found[series].basis == basis for series in there):
        return [found[series] for series in there]
    return None


def _digest(night: Night) -> bytes:
    # Rounded: the last bits of a sum differ between machines.
    values = " ".join(f"{run.centre:.9g}/{run.spread or 0:.6g}" for run in night.runs)
    return hashlib.blake2b(f"{night.name} {values}".encode(), digest_size=_DIGEST).digest()


def _basis(group: Group, night: str, series: Mapping[str, Standing]) -> str:
    """Returns a digest of all that a night's decisions rest on: where each series stood, and the nights that count."""
    digest = hashlib.sha256(f"{RULES} {night}".encode())
    for name in sorted(series):
        member, standing = group.members[name], series[name]
        last = member.places[night]
        since = standing.alert.began if standing.alert else next(iter(standing.better), night)
        first = max(0, min(last - GUARD, member.places.get(since, last)) - MOST_NIGHTS)
        digest.update(f"{name} {standing} {member.least}".encode())
        digest.update(member.digests[_DIGEST * first : _DIGEST * (last + 1)])
    return digest.hexdigest()[:16]


def _standings(group: Group, night: str, known: Mapping[str, Standing]) -> dict[str, Standing]:
    """Returns where each series with a value in a night stands as it begins: where a person said so, at a new level."""
    return {
        name: Standing(level=night) if night in member.accepted else known.get(name, Standing())
        for name, member in group.members.items()
        if night in member.places
    }


def _series(group: Group, night: str, standings: Mapping[str, Standing]) -> dict[str, Series]:
    found = {}
    for name, standing in standings.items():
        member = group.members[name]
        nights = member.recorded.nights[: member.places[night] + 1]
        found[name] = series_of(nights, standing, math.log1p(member.least))
    return found


def _decided(
    group: Group, night: str, standings: Mapping[str, Standing], outcome: Outcome, basis: str
) -> list[Decision]:
    series = _series(group, night, standings)
    return [
        _decision(group, night, name, before, series[name], outcome, basis)
        for name, before in standings.items()
    ]


def _decision(
    group: Group, night: str, name: str, before: Standing, series: Series, outcome: Outcome, basis: str
) -> Decision:
    finding, worse = outcome.findings[name], group.members[name].worse
    standing = after(before, series, finding, worse)
    verdict, reason = verdict_of(standing, finding, worse, series, night)
    baseline, found = finding.baseline, finding.evidence
    effect = reach = None
    if baseline and found:
        runs = sum(len(one.runs) for one in series.nights[-found.window :])
        scatter = math.sqrt(baseline.variance * (1 / runs + 1 / baseline.nights))
        effect, reach = found.effect, t_quantile(baseline.degrees) * scatter
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
        level=math.exp(baseline.centre) if baseline else None,
        shift=math.expm1(shift.size) if (shift := outcome.shifts.get(group.name)) else None,
        told=told_of(before, standing, finding, worse),
        least=group.members[name].least,
    )
