"""Kueue's scheduler: goes over what is pending, gives quota, preempts, and says why something waits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.cloud.kubernetes import kueue_quota
from tests.cloud.kubernetes.conditions import find, holds
from tests.cloud.kubernetes.kueue_cohort import Room, cohort_of
from tests.cloud.kubernetes.kueue_jobs import WORKLOADS
from tests.cloud.kubernetes.kueue_preemption import WORDS, Victim, newest_first, victims
from tests.cloud.kubernetes.kueue_queues import inactive
from tests.cloud.kubernetes.kueue_quota import Assignment
from tests.cloud.kubernetes.kueue_workloads import put_seen, reason_told
from tests.cloud.kubernetes.store import Key, Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_BY = "kueue-admission"
_QUEUES = "clusterqueues.kueue.x-k8s.io"


class Admission:
    """Admits Workloads."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world

    def cycle(self, key: Key) -> float | None:
        """Looks at everything that is pending, the most important and the oldest first."""
        del key
        blocked: set[str] = set()
        pending = [one for one in self._world.store.list(WORKLOADS) if _pending(one)]
        pending.sort(key=lambda one: one["metadata"]["creationTimestamp"])
        pending.sort(key=lambda one: -one["spec"].get("priority", 0))
        for wl in self._world.store.list(WORKLOADS):
            self._activity(wl)
            self._stopped(wl)
        waiting: dict[str, list[Obj]] = {}
        for wl in pending:
            queue = self._queue(wl)
            if queue is not None:
                waiting.setdefault(queue["metadata"]["name"], []).append(wl)
        while heads := [(name, some[0]) for name, some in waiting.items() if some and name not in blocked]:
            heads.sort(key=lambda head: pending.index(head[1]))
            heads.sort(key=lambda head: self._borrows(*head))
            for name, wl in heads:
                queue = self._world.store.get(_QUEUES, "", name)
                waiting[name].remove(wl)
                fits = queue is not None and self._one(wl, queue)
                if queue is not None and not fits and queue["spec"]["queueingStrategy"] == "StrictFIFO":
                    blocked.add(name)
        return None

    def _borrows(self, name: str, wl: Obj) -> bool:
        """Whether a Workload would get what is others': those that do not go first."""
        queue = self._world.store.get(_QUEUES, "", name)
        if queue is None or not cohort_of(queue):
            return False
        room, _ = self._room(queue)
        usage = kueue_quota.assign(wl, queue, self._flavors(), room).usage
        return any(room.borrows(name, key, amount) for key, amount in usage.items())

    def _flavors(self) -> dict[str, Obj]:
        return {
            one["metadata"]["name"]: one for one in self._world.store.each("resourceflavors.kueue.x-k8s.io")
        }

    def _room(self, queue: Obj) -> tuple[Room, dict[str, list[Obj]]]:
        """Returns what there is for a queue, and who holds quota, by queue: those that got it last first."""
        holders: dict[str, list[Obj]] = {}
        for one in self._world.store.list(WORKLOADS):
            holders.setdefault(held_in(one), []).append(one)
        used = {
            name: sum((kueue_quota.used_by(one) for one in some), Counter()) for name, some in holders.items()
        }
        going = {
            name: newest_first([one for one in some if not holds(one, "Finished")])
            for name, some in holders.items()
            if name
        }
        return Room(queue, list(self._world.store.each(_QUEUES)), used), going

    def _activity(self, wl: Obj) -> None:
        """Follows spec.active, by which a person pauses a Workload."""
        if holds(wl, "Finished") or not wl.get("status"):
            return
        evicted = find(wl, "Evicted")
        if not wl["spec"].get("active", True):
            if holds(wl, "QuotaReserved") and evicted.get("status") != "True":
                self._evict(wl, "Deactivated", "The workload is deactivated")
            elif not holds(wl, "QuotaReserved") and find(wl, "QuotaReserved").get("reason") != "Deactivated":
                self._wait(wl, "Deactivated", "The workload is deactivated")
        elif evicted.get("reason") == "Deactivated" and find(wl, "Requeued").get("status") == "False":
            self._set(
                wl,
                lambda obj: put_seen(obj, "Requeued", "True", "Reactivated", "The workload was reactivated"),
            )

    def _stopped(self, wl: Obj) -> None:
        """Follows the stop policies of its queues: those that drain take back what they gave."""
        if holds(wl, "Finished"):
            return
        stops = self._stops(wl)
        evicted = find(wl, "Evicted")
        if holds(wl, "QuotaReserved") and evicted.get("status") != "True":
            for kind, stop in stops.items():
                if stop == "HoldAndDrain":
                    self._evict(wl, f"{kind}Stopped", f"The {kind} is stopped")
                    return
        requeued = find(wl, "Requeued")
        for kind, stop in stops.items():
            if stop == "None" and (requeued.get("status"), requeued.get("reason")) == (
                "False",
                f"{kind}Stopped",
            ):
                self._restarted(wl, kind)

    def _restarted(self, wl: Obj, kind: str) -> None:
        told = f"The {kind} was restarted after being stopped"
        self._set(wl, lambda obj: put_seen(obj, "Requeued", "True", f"{kind}Restarted", told))

    def _stops(self, wl: Obj) -> dict[str, str]:
        """Returns the stop policies of its ClusterQueue and its LocalQueue, as far as these are there."""
        store = self._world.store
        space, name = wl["metadata"]["namespace"], wl["spec"].get("queueName", "")
        local = store.get("localqueues.kueue.x-k8s.io", space, name)
        if local is None:
            return {}
        queue = store.get("clusterqueues.kueue.x-k8s.io", "", local["spec"]["clusterQueue"])
        cluster = {} if queue is None else {"ClusterQueue": str(queue["spec"]["stopPolicy"])}
        return {**cluster, "LocalQueue": str(local["spec"]["stopPolicy"])}

    def _queue(self, wl: Obj) -> Obj | None:
        """Returns the ClusterQueue that a Workload waits in; None, and the reason is told, where there is none."""
        store, space = self._world.store, wl["metadata"]["namespace"]
        name = wl["spec"].get("queueName", "")
        local = store.get("localqueues.kueue.x-k8s.io", space, name)
        if local is None:
            return self._wait(wl, "Misconfigured", f"LocalQueue {name} doesn't exist")
        if local["spec"]["stopPolicy"] != "None":
            return self._wait(wl, "Suspended", f"LocalQueue {name} is inactive")
        name = local["spec"]["clusterQueue"]
        queue = store.get("clusterqueues.kueue.x-k8s.io", "", name)
        if queue is None:
            return self._wait(wl, "Misconfigured", f"ClusterQueue {name} doesn't exist")
        if inactive(self._world, queue):
            if queue["spec"]["stopPolicy"] == "Hold" and find(wl, "QuotaReserved"):
                return None  # what was said of it before stays
            return self._wait(wl, "Suspended", f"ClusterQueue {name} is inactive")
        if find(wl, "QuotaReserved").get("reason") in ("Misconfigured", "Suspended", "Inadmissible"):
            self._wait(wl, "PendingEvaluation", "Workload is pending evaluation in the scheduling queue")
        return queue

    def _one(self, wl: Obj, queue: Obj) -> bool:
        """Tries to admit one Workload; returns whether it was."""
        flavors = self._flavors()
        room, holders = self._room(queue)
        found = kueue_quota.assign(wl, queue, flavors, room)
        if not found.verdict:
            self._admit(wl, queue, found)
            return True
        reason, message = found.verdict, found.message
        if reason == kueue_quota.WAITS and (chosen := victims(wl, queue, flavors, room, holders)):
            for one in chosen:
                self._preempt(one, wl, room)
            reason = "WaitingForPreemptedWorkloads"
            message += f". Pending the preemption of {len(chosen)} workload(s)"
        self._wait(wl, reason, message, told=True)
        return False

    def _admit(self, wl: Obj, queue: Obj, found: Assignment) -> None:
        name = queue["metadata"]["name"]

        def edit(obj: Obj) -> None:
            status = obj.setdefault("status", {})
            status["admission"] = {"clusterQueue": name, "podSetAssignments": found.pod_sets}
            put_seen(obj, "QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {name}")
            for kind in ("Evicted", "Preempted"):
                if holds(obj, kind):
                    put_seen(obj, kind, "False", "QuotaReserved", f"Previously: {find(obj, kind)['message']}")
            put_seen(obj, "Admitted", "True", "Admitted", "The workload is admitted")
            status.pop("reclaimablePods", None)

        written = self._set(wl, edit)
        told = f"Quota reserved in ClusterQueue {name}, wait time since queued was 1s"
        self._world.event(written, "QuotaReserved", told, by=_BY)
        told = f"Admitted by ClusterQueue {name}, wait time since reservation was 0s"
        self._world.event(written, "Admitted", told, by=_BY)

    def _preempt(self, victim: Victim, wl: Obj, room: Room) -> None:
        loser = victim.workload
        if holds(loser, "Evicted"):
            return
        job = wl["metadata"]["labels"].get("kueue.x-k8s.io/job-uid", "")
        told = f"Preempted to accommodate a workload (UID: {wl['metadata']['uid']}, JobUID: {job}) "
        told += f"due to {WORDS[victim.reason]}; preemptor path: {room.path}; "
        told += f"preemptee path: {room.paths.get(victim.queue, room.path)}"
        written = self._evict(loser, "Preempted", told, preempted=victim.reason)
        high, low = wl["spec"].get("priority", 0), loser["spec"].get("priority", 0)
        levels = f"; preemptor effective priority: {high} (base: {high}, boost: 0); "
        levels += f"preemptee effective priority: {low} (base: {low}, boost: 0)"
        self._world.event(written, "Preempted", told + levels, by=_BY)
        self._world.event(written, "EvictedDueToPreempted", told, by=_BY)

    def _evict(self, wl: Obj, reason: str, message: str, *, preempted: str = "") -> Obj:
        def edit(obj: Obj) -> None:
            put_seen(obj, "Evicted", "True", reason, message, before="Admitted")
            if preempted:
                put_seen(obj, "Preempted", "True", preempted, message, before="PodsReady")
            stats = obj["status"].setdefault("schedulingStats", {}).setdefault("evictions", [])
            known = next((one for one in stats if one["reason"] == reason), None)
            if known is None:
                known = {"count": 0, "reason": reason, "underlyingCause": ""}
                stats.append(known)
            known["count"] += 1

        return self._set(wl, edit)

    def _wait(self, wl: Obj, reason: str, message: str, *, told: bool = False) -> None:
        before, reason = find(wl, "QuotaReserved"), reason_told(self._world, reason)

        def edit(obj: Obj) -> None:
            put_seen(obj, "QuotaReserved", "False", reason, message)
            if self._world.settings.kueue_reasons or find(obj, "Admitted"):
                put_seen(obj, "Admitted", "False", "NoReservation", "The workload has no reservation")

        written = self._set(wl, edit)
        if told and (before.get("reason"), before.get("message")) != (reason, message):
            self._world.event(written, reason, message, warning=True, by=_BY)

    def _set(self, wl: Obj, edit: object) -> Obj:
        meta = wl["metadata"]
        assert callable(edit)
        return self._world.store.change((WORKLOADS, meta["namespace"], meta["name"]), edit) or wl


def _pending(wl: Obj) -> bool:
    gone = wl["metadata"].get("deletionTimestamp") or holds(wl, "Finished")
    return not gone and not holds(wl, "QuotaReserved") and wl["spec"].get("active", True)


def held_in(wl: Obj) -> str:
    """Returns the ClusterQueue whose quota a Workload holds, empty for none."""
    if not holds(wl, "QuotaReserved"):
        return ""
    return str(wl["status"]["admission"]["clusterQueue"])
