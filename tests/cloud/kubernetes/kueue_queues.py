"""What ClusterQueues and LocalQueues say of themselves: whether they are active, what waits in them, what is used."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import quantities
from tests.cloud.kubernetes.conditions import holds
from tests.cloud.kubernetes.kueue_cohort import Usage
from tests.cloud.kubernetes.kueue_jobs import WORKLOADS
from tests.cloud.kubernetes.kueue_quota import used_by
from tests.cloud.kubernetes.kueue_workloads import put_seen
from tests.cloud.kubernetes.store import Key, Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_CLUSTER, _LOCAL = "clusterqueues.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"
_FLAVORS = "resourceflavors.kueue.x-k8s.io"


class Queues:
    """Keeps the status of all queues."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world

    def tell(self, key: Key) -> float | None:
        """Writes the status of every queue that changed."""
        del key
        for queue in self._world.store.list(_CLUSTER):
            self._cluster(queue)
            if not any(
                queue["metadata"]["name"] == _holds_of(one) for one in self._world.store.list(WORKLOADS)
            ):
                self._let_go(_CLUSTER, queue)
        used = {one for queue in self._world.store.list(_CLUSTER) for one in _flavors(queue)}
        for flavor in self._world.store.list(_FLAVORS):
            if flavor["metadata"]["name"] not in used:
                self._let_go(_FLAVORS, flavor)
        for queue in self._world.store.list(_LOCAL):
            self._local(queue)
        return None

    def _let_go(self, kind: str, one: Obj) -> None:
        """Lets what is to go do so, since nothing uses it any more."""
        if one["metadata"].get("deletionTimestamp"):
            self._world.store.change(
                (kind, "", one["metadata"]["name"]), lambda obj: obj["metadata"].pop("finalizers", None)
            )

    def _cluster(self, queue: Obj) -> None:
        name = queue["metadata"]["name"]
        locals_ = {
            (one["metadata"]["namespace"], one["metadata"]["name"])
            for one in self._world.store.list(_LOCAL)
            if one["spec"]["clusterQueue"] == name
        }
        why = inactive(self._world, queue)

        def edit(obj: Obj) -> None:
            self._count(obj, queue, locals_, borrowed=True)
            if why:
                put_seen(obj, "Active", "False", *why)
            else:
                put_seen(obj, "Active", "True", "Ready", "Can admit new workloads")

        self._world.store.change((_CLUSTER, "", name), edit)

    def _local(self, queue: Obj) -> None:
        meta = queue["metadata"]
        cluster = self._world.store.get(_CLUSTER, "", queue["spec"]["clusterQueue"])

        def edit(obj: Obj) -> None:
            if cluster is not None:
                self._count(obj, cluster, {(meta["namespace"], meta["name"])}, borrowed=False)
            if queue["spec"]["stopPolicy"] != "None":
                put_seen(obj, "Active", "False", "Stopped", "LocalQueue is stopped")
            elif cluster is None:
                told = "Can't submit new workloads to clusterQueue"
                put_seen(obj, "Active", "False", "ClusterQueueDoesNotExist", told)
            elif inactive(self._world, cluster):
                told = "Can't submit new workloads to clusterQueue"
                put_seen(obj, "Active", "False", "ClusterQueueIsInactive", told)
            else:
                put_seen(obj, "Active", "True", "Ready", "Can submit new workloads to localQueue")

        self._world.store.change((_LOCAL, meta["namespace"], meta["name"]), edit)

    def _count(self, obj: Obj, queue: Obj, locals_: set[tuple[str, str]], *, borrowed: bool) -> None:
        status = obj.setdefault("status", {})
        own = [
            one
            for one in self._world.store.list(WORKLOADS)
            if (one["metadata"]["namespace"], one["spec"].get("queueName")) in locals_
            and not holds(one, "Finished")
        ]
        reserving = [one for one in own if holds(one, "QuotaReserved")]
        admitted = [one for one in reserving if holds(one, "Admitted")]
        status["admittedWorkloads"] = len(admitted)
        status["pendingWorkloads"] = len(own) - len(reserving)
        status["reservingWorkloads"] = len(reserving)
        status["flavorsReservation"] = _usage(queue, reserving, borrowed)
        status["flavorsUsage"] = _usage(queue, admitted, borrowed)


def _usage(queue: Obj, holders: list[Obj], borrowed: bool) -> list[dict[str, Any]]:
    used: Usage = sum((used_by(one) for one in holders), Counter())
    told = []
    for group in queue["spec"].get("resourceGroups") or []:
        for flavor in group["flavors"]:
            resources = [
                {
                    **({"borrowed": _over(used[flavor["name"], one["name"]], one)} if borrowed else {}),
                    "name": one["name"],
                    "total": quantities.text(used[flavor["name"], one["name"]]),
                }
                for one in flavor["resources"]
            ]
            told.append({"name": flavor["name"], "resources": resources})
    return told


def _over(used: float, quota: dict[str, Any]) -> str:
    """Returns what is used beyond the queue's own quota: a cohort lent it."""
    return quantities.text(max(0, used - quantities.number(quota["nominalQuota"])))


def inactive(world: World, queue: Obj) -> tuple[str, str] | None:
    """Returns (reason, message) where a ClusterQueue admits nothing."""
    if queue["metadata"].get("deletionTimestamp"):
        return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    if queue["spec"]["stopPolicy"] != "None":
        return "Stopped", "Can't admit new workloads: is stopped."
    missing = [one for one in _flavors(queue) if world.store.get(_FLAVORS, "", one) is None]
    if missing:
        return (
            "FlavorNotFound",
            f"Can't admit new workloads: references missing ResourceFlavor(s): {', '.join(missing)}.",
        )
    return None


def _flavors(queue: Obj) -> list[str]:
    return [one["name"] for group in queue["spec"].get("resourceGroups") or [] for one in group["flavors"]]


def _holds_of(wl: Obj) -> str:
    """Returns the ClusterQueue whose quota a Workload holds, empty for none."""
    if holds(wl, "Finished") or not holds(wl, "QuotaReserved"):
        return ""
    return str(wl["status"]["admission"]["clusterQueue"])
