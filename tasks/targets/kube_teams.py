"""The quota of a cluster divided among teams, as Kueue has it: a ClusterQueue each, all in one cohort. Pure.

A team's slices are its own: others borrow them while they are idle, and give them back when the team asks, whatever
they run. What is nobody's own is the common queue's, which is in the cohort as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.cloud.kubernetes_kinds import CLUSTER_QUEUE, Kind, Object
from tasks.targets.kube_queues import CLUSTER_QUEUE_NAME, MANAGED, Bound, Flavor, Names, cluster_queue

COHORT = "teams"
TEAM = "slicebench-team"
"""Label of the queues of teams."""


@dataclass(frozen=True)
class Share:
    """What one team has of its own, in slices. `borrow`, `lend`: at most so many; None: all that there are."""

    team: str
    slices: int
    borrow: int | None = None
    lend: int | None = None


@dataclass(frozen=True)
class Teams:
    """How a cluster is shared. `chips` are those of a slice. Without shares, one queue has all of it."""

    shares: Sequence[Share] = ()
    chips: int = 1


def queue_of(team: str) -> str:
    """Returns the name of a team's ClusterQueue."""
    return f"team-{team}"


def divided(wanted: Sequence[Flavor], teams: Teams) -> tuple[list[Flavor], list[tuple[Share, list[Flavor]]]]:
    """Returns what is left for the common queue, and what each team has of its own.

    Of machines without chips, teams have as large a part as of the slices. Where there are fewer slices than all have
    of their own, who is named first has its own first.
    """
    left = {one.name: dict(one.amounts) for one in wanted}
    slices = sum(_slices(one, teams.chips) for one in wanted)
    found: list[tuple[Share, list[Flavor]]] = []
    rest = slices
    for share in teams.shares:
        own = min(share.slices, rest)
        rest -= own
        of_team = []
        for one in wanted:
            total = _slices(one, teams.chips) or slices
            part = own if _slices(one, teams.chips) == slices or not one.taint else 0
            amounts = {name: has * part // total if total else 0 for name, has in one.amounts.items()}
            for name, amount in amounts.items():
                left[one.name][name] -= amount
            of_team.append(replace(one, amounts=amounts))
        found.append((share, of_team))
    return [replace(one, amounts=left[one.name]) for one in wanted], found


def queues(wanted: Sequence[Flavor], teams: Teams) -> list[tuple[Kind, Object]]:
    """Returns the ClusterQueues: the common one first."""
    if not teams.shares:
        return [(CLUSTER_QUEUE, cluster_queue(wanted, Names()))]
    rest, found = divided(wanted, teams)
    made = [(CLUSTER_QUEUE, cluster_queue(rest, Names(cohort=COHORT)))]
    for share, own in found:
        names = Names(cluster_queue=queue_of(share.team), cohort=COHORT, labels={**MANAGED, TEAM: share.team})
        bounds = {
            one.name: Bound(
                _so_many(one, total, share.borrow, teams.chips),
                _so_many(one, total, share.lend, teams.chips, most=one.amounts),
            )
            for one, total in zip(own, wanted, strict=True)
            if one.taint  # machines without chips are lent and borrowed as they are idle
        }
        made.append((CLUSTER_QUEUE, cluster_queue(own, names, bounds)))
    return made


def queue_for(team: str, teams: Teams) -> str:
    """Returns the ClusterQueue in which a team's workloads wait."""
    return queue_of(team) if any(one.team == team for one in teams.shares) else CLUSTER_QUEUE_NAME


def _so_many(
    own: Flavor, total: Flavor, slices: int | None, chips: int, most: Mapping[str, int] | None = None
) -> Mapping[str, int] | None:
    """Returns what so many slices have of each resource."""
    if slices is None:
        return None
    there = _slices(total, chips)
    found = {name: has * slices // there if there else 0 for name, has in total.amounts.items()}
    return found if most is None else {name: min(amount, most[name]) for name, amount in found.items()}


def _slices(flavor: Flavor, chips: int) -> int:
    return flavor.amounts.get(flavor.taint, 0) // chips if flavor.taint else 0
