"""What the ClusterQueues of a cohort have together: what each may use now, and at most, of its own and of others'.

Cohorts here are one level deep: names that queues have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.cloud.kubernetes import quantities
from tests.cloud.kubernetes.store import Obj

Amount = tuple[str, str]
"""A resource of a flavor."""
Usage = Counter[Amount]
"""How much of each."""
Admitted = Callable[[str], Usage]
"""What the Workloads of a ClusterQueue hold, by its name."""


@dataclass(frozen=True)
class Quota:
    """Of one resource of one flavor in one ClusterQueue. None: without such a limit."""

    nominal: float = 0.0
    borrowing: float | None = None
    lending: float | None = None

    @property
    def kept(self) -> float:
        """What no other queue ever gets."""
        return 0.0 if self.lending is None else max(0.0, self.nominal - self.lending)


NONE = Quota()


def cohort_of(queue: Obj) -> str:
    """Returns the name of a queue's cohort; empty: it is in none."""
    return str(queue["spec"].get("cohortName") or "")


def quotas(queue: Obj) -> dict[Amount, Quota]:
    """Returns a ClusterQueue's quotas."""
    return {
        (flavor["name"], one["name"]): Quota(
            quantities.number(one["nominalQuota"]), _limit(one, "borrowingLimit"), _limit(one, "lendingLimit")
        )
        for group in queue["spec"].get("resourceGroups") or []
        for flavor in group["flavors"]
        for one in flavor["resources"]
    }


def _limit(one: Mapping[str, Any], name: str) -> float | None:
    return quantities.number(one[name]) if one.get(name) is not None else None


class Room:
    """What one ClusterQueue has room for, while the queues of its cohort use so much."""

    def __init__(self, queue: Obj, queues: list[Obj], used: Mapping[str, Usage]) -> None:
        """`queues` are all that there are, `used` what is used of each."""
        self.name, cohort = queue["metadata"]["name"], cohort_of(queue)
        together = [one for one in queues if cohort and cohort_of(one) == cohort]
        self.others = [one["metadata"]["name"] for one in together if one["metadata"]["name"] != self.name]
        self.path = f"/{cohort}/{self.name}" if cohort else f"/{self.name}"
        self.paths = {name: f"/{cohort}/{name}" for name in self.others}
        self._quotas = {one["metadata"]["name"]: quotas(one) for one in (*together, queue)}
        self._cohort = bool(cohort)
        self.used = {name: used.get(name, Counter()) for name in self._quotas}

    def without(self, name: str, usage: Usage) -> Room:
        """Returns the same once a Workload of a queue no longer holds its quota."""
        return self.changed(name, usage, -1)

    def changed(self, name: str, usage: Usage, sign: int) -> Room:
        """Returns the same with so much more (or less) used of a queue."""
        made = object.__new__(Room)
        made.__dict__.update(self.__dict__)
        more = Counter(self.used[name])
        for key, amount in usage.items():
            more[key] += sign * amount  # type: ignore[assignment]
        made.used = {**self.used, name: more}
        return made

    def now(self, key: Amount) -> float:
        """Returns how much more of a resource the queue may use at this moment."""
        quota, used = self.quota(key), self.used[self.name][key]
        if not self._cohort:
            return quota.nominal - used
        lent = sum(self._in_common(name, key) for name in self._quotas)
        taken = sum(max(0.0, self.used[name][key] - self._of(name, key).kept) for name in self._quotas)
        from_all = lent - taken
        if quota.borrowing is not None:
            own = self._in_common(self.name, key) - max(0.0, used - quota.kept)
            from_all = min(from_all, own + quota.borrowing)
        return max(0.0, quota.kept - used) + from_all

    def most(self, key: Amount) -> float:
        """Returns how much it could use if nobody used anything."""
        quota = self.quota(key)
        if not self._cohort:
            return quota.nominal
        found = quota.kept + sum(self._in_common(name, key) for name in self._quotas)
        return found if quota.borrowing is None else min(found, quota.nominal + quota.borrowing)

    def quota(self, key: Amount) -> Quota:
        """Returns the queue's own quota."""
        return self._of(self.name, key)

    def borrows(self, name: str, key: Amount, more: float = 0.0) -> bool:
        """Whether a queue uses more than its own quota, with so much more."""
        return self.used[name][key] + more > self._of(name, key).nominal

    def _of(self, name: str, key: Amount) -> Quota:
        return self._quotas[name].get(key, NONE)

    def _in_common(self, name: str, key: Amount) -> float:
        quota = self._of(name, key)
        return quota.nominal - quota.kept
