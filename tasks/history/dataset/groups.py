"""The series that are judged, by the groups that share good and bad nights: what a night is decided of. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from runtime.contract.metrics import describe
from tasks.history.dataset.decision import LEAST, Decision
from tasks.history.dataset.of_machine import name_of_machine
from tasks.history.dataset.recorded import Recorded, Records
from tasks.history.detection.finding import Change
from tasks.history.detection.series import Night

JUDGED_UNITS = ("s", "bytes")
"""Throughputs and ratios follow from what is measured in these, and would count twice."""

DIGEST = 8
"""Bytes of a night's digest."""


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
    """The series of one machine and track and one unit, which are decided together: they share good and bad nights.

    `accepted`: nights from which on what they are off by together is expected.
    """

    name: str
    members: Mapping[str, Member]
    accepted: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """Returns what people call all of them together."""
        one = next(iter(self.members.values())).recorded
        what = {"s": "times", "bytes": "memory"}.get(one.about["unit"], one.about["unit"])
        host = one.fingerprint.get("host", "unknown")
        return f"all {what} on {one.about['target']} ({host}, {one.about['track']})"

    @cached_property
    def nights(self) -> Sequence[str]:
        """Returns the names of all nights, the latest last."""
        return sorted({night for member in self.members.values() for night in member.places})


def groups(
    records: Records,
    accepted: Mapping[str, frozenset[str]] | None = None,
    least: Mapping[str, float] | None = None,
) -> Mapping[str, Group]:
    """Returns all judged series by group.

    `accepted`: of a series, or of a machine by its `name_of_machine`, the nights that begin a new level.
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
    of_machine = {name: (accepted or {}).get(name_of_machine(name), frozenset()) for name in found}
    return {name: Group(name, members, of_machine[name]) for name, members in found.items()}


def group_of(one: Recorded) -> str:
    """Returns the name of the group that a series is decided in. What slows a machine says nothing of its memory."""
    unit = one.about["unit"]
    return f"{one.about['machine']}/{one.about['track']}" + ("" if unit == "s" else f"/{unit}")


def unmeasured(groups: Mapping[str, Group], since: float) -> list[str]:
    """Returns the series that no run measured that began since then, and the machines of which none was measured."""
    found: list[str] = []
    for name, group in groups.items():
        old = [one for one, member in group.members.items() if member.recorded.about["began_at"] < since]
        found += [*old, name_of_machine(name)] if len(old) == len(group.members) else old
    return found


def narrowed(group: Group, series: str, known: Iterable[Decision], nights: int, most: int) -> Group:
    """Returns a group that its latest nights can be decided of in a moment: whole, or one series and some others.

    `most`: how many decisions may have to be made, of `nights`. The others tell what is common to all of them.
    """
    decided = {one.night for one in known if one.group == group.name}
    missing = [night for night in group.nights[-nights:] if night not in decided]
    if len(missing) * len(group.members) <= most:
        return group
    others = [name for name in sorted(group.members) if name != series][: max(8, most // nights)]
    return Group(group.name, {name: group.members[name] for name in (series, *others)}, group.accepted)


def _digest(night: Night) -> bytes:
    # Rounded: the last bits of a sum differ between machines.
    values = " ".join(f"{run.centre:.9g}/{run.spread or 0:.6g}" for run in night.runs)
    return hashlib.blake2b(f"{night.name} {values}".encode(), digest_size=DIGEST).digest()
