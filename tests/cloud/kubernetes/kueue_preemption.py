"""Whom Kueue preempts: less important ones of the same queue, and those of a cohort who use what they borrowed.

Its classical way, without fair sharing and without borrowing within the cohort by preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.cloud.kubernetes.conditions import find, holds
from tests.cloud.kubernetes.kueue_cohort import Amount, Room, Usage
from tests.cloud.kubernetes.kueue_quota import FITS, assign, used_by
from tests.cloud.kubernetes.store import Obj

IN_QUEUE, IN_COHORT = "InClusterQueue", "InCohortReclamation"
WORDS = {
    IN_QUEUE: "prioritization in the ClusterQueue",
    IN_COHORT: "reclamation within the cohort",
}


class Victim(NamedTuple):
    """One that gives way: of which queue, and why."""

    workload: Obj
    queue: str
    reason: str
    only_own: bool
    """It gives way only to who then uses no more than its own quota."""


def victims(
    wl: Obj, queue: Obj, flavors: dict[str, Obj], room: Room, holders: dict[str, list[Obj]]
) -> list[Victim]:
    """Returns whom to preempt so that a Workload fits; empty where that is no help.

    `holders` are those that hold quota, by their queue.
    """
    wanted = _wanted(wl, queue, flavors, room)
    short = [key for key, amount in wanted.items() if amount > room.now(key)]
    if any(wanted[key] > room.quota(key).nominal for key in short):
        return []  # what it would have to borrow is not taken from anybody
    same = sorted(_of_same(wl, queue, holders.get(room.name, [])), key=_first)
    others = sorted(_of_others(wl, queue, room, wanted, short, holders), key=_first)
    ordered = sorted((*others, *same), key=lambda one: not holds(one.workload, "Evicted"))
    under = all(room.used[room.name][key] < room.quota(key).nominal for key in short)
    if not others or not under:
        attempts = (True,)
    elif all(one.only_own for one in others):
        attempts = (False, True)
    else:
        attempts = (True, False)
    for borrowing in attempts:
        if found := _attempt(ordered, wanted, short, room, borrowing):
            return found
    return []


def _wanted(wl: Obj, queue: Obj, flavors: dict[str, Obj], room: Room) -> Usage:
    """Returns what it asks for, of the flavors that it would get if nothing were used."""
    empty = room
    for name, used in room.used.items():
        empty = empty.without(name, used)
    found = assign(wl, queue, flavors, empty)
    return found.usage if found.verdict == FITS else Counter()


def _of_same(wl: Obj, queue: Obj, holders: list[Obj]) -> Iterator[Victim]:
    policy = queue["spec"]["preemption"]["withinClusterQueue"]
    for one in holders:
        if _gives_way(one, wl, policy):
            yield Victim(one, queue["metadata"]["name"], IN_QUEUE, only_own=False)


def _of_others(
    wl: Obj, queue: Obj, room: Room, wanted: Usage, short: list[Amount], holders: dict[str, list[Obj]]
) -> Iterator[Victim]:
    policy = queue["spec"]["preemption"]["reclaimWithinCohort"]
    within = not any(room.borrows(room.name, key, amount) for key, amount in wanted.items())
    for name in room.others:
        if any(room.borrows(name, key) for key in short):
            for one in holders.get(name, []):
                if _gives_way(one, wl, policy) and any(used_by(one)[key] for key in short):
                    yield Victim(one, name, IN_COHORT, only_own=not within)


def _gives_way(one: Obj, wl: Obj, policy: str) -> bool:
    its, mine = one["spec"].get("priority", 0), wl["spec"].get("priority", 0)
    if policy == "LowerOrNewerEqualPriority" and its == mine:
        return bool(one["metadata"]["creationTimestamp"] > wl["metadata"]["creationTimestamp"])
    return policy == "Any" or (policy != "Never" and its < mine)


def _first(one: Victim) -> tuple[bool, int]:
    """The least important first, and of these the one that was admitted last."""
    return not holds(one.workload, "Evicted"), one.workload["spec"].get("priority", 0)


def _attempt(
    ordered: list[Victim], wanted: Usage, short: list[Amount], room: Room, borrowing: bool
) -> list[Victim]:
    chosen: list[Victim] = []
    for one in ordered:
        if one.queue != room.name and (
            (borrowing and one.only_own) or not any(room.borrows(one.queue, key) for key in short)
        ):
            continue
        chosen.append(one)
        room = room.without(one.queue, used_by(one.workload))
        if _fits(room, wanted, borrowing):
            return _filled_back(chosen, wanted, room, borrowing)
    return []


def _filled_back(chosen: list[Victim], wanted: Usage, room: Room, borrowing: bool) -> list[Victim]:
    """Spares those who need not go after all."""
    left = list(chosen)
    for one in reversed(chosen[:-1]):
        more = room.changed(one.queue, used_by(one.workload), 1)
        if _fits(more, wanted, borrowing):
            left.remove(one)
            room = more
    return left


def _fits(room: Room, wanted: Usage, borrowing: bool) -> bool:
    return all(
        amount <= room.now(key) and (borrowing or not room.borrows(room.name, key, amount))
        for key, amount in wanted.items()
    )


def newest_first(holders: list[Obj]) -> list[Obj]:
    """Returns those that hold quota, the last that got it first."""
    return sorted(holders, key=lambda one: find(one, "QuotaReserved")["lastTransitionTime"], reverse=True)
