"""How Kueue holds a JobSet: makes its Workload, starts and stops it, passes on readiness and the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes.conditions import find, holds
from tests.cloud.kubernetes.jobset_jobs import owner
from tests.cloud.kubernetes.kueue_workloads import (
    active,
    pod_sets,
    put_seen,
    readiness,
    reason_told,
    reclaimable,
    reference,
    workload_name,
)
from tests.cloud.kubernetes.store import Key, Obj
from tests.cloud.kubernetes.webhooks import QUEUE

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

JOBSETS = "jobsets.jobset.x-k8s.io"
WORKLOADS = "workloads.kueue.x-k8s.io"
IN_USE = "kueue.x-k8s.io/resource-in-use"
PRIORITY = "kueue.x-k8s.io/priority-class"
_BY = "jobset.x-k8s.io/jobset-kueue-controller"


class Jobs:
    """Reconciles JobSets that name a queue."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world

    def reconcile(self, key: Key) -> float | None:
        """Looks at one JobSet and its Workload."""
        js = self._world.store.at(key)
        for one in self._workloads(key):
            if js is None or one["metadata"]["ownerReferences"][0]["uid"] != js["metadata"]["uid"]:
                self._ownerless(one)
        if js is None or js["metadata"].get("deletionTimestamp"):
            return None
        queue = (js["metadata"].get("labels") or {}).get(QUEUE)
        if not queue or not self._world.registry.serves(WORKLOADS):
            return None
        wl = self._world.store.get(WORKLOADS, key[1], workload_name(js))
        if wl is None:
            self._make(js, queue)
        elif wl["metadata"].get("deletionTimestamp"):
            self._release(wl)
        elif not holds(wl, "Finished"):
            self._follow(js, wl)
        elif IN_USE in (wl["metadata"].get("finalizers") or []):
            self._release(wl)
        return None

    def _workloads(self, key: Key) -> list[Obj]:
        found = self._world.store.list(WORKLOADS, key[1])
        return [one for one in found if one["metadata"].get("ownerReferences", [{}])[0].get("name") == key[2]]

    def _ownerless(self, wl: Obj) -> None:
        """Finishes a Workload whose JobSet is gone, which gives its quota back."""
        if not holds(wl, "Finished") and not wl["metadata"].get("deletionTimestamp"):
            told = "The workload's owner no longer exists"
            self._set(wl, lambda obj: put_seen(obj, "Finished", "True", "OwnerNotFound", told))
        self._release(wl)

    def _release(self, wl: Obj) -> None:
        def edit(obj: Obj) -> None:
            left = [one for one in obj["metadata"].get("finalizers") or [] if one != IN_USE]
            obj["metadata"].pop("finalizers", None)
            if left:
                obj["metadata"]["finalizers"] = left

        self._set(wl, edit)

    def _set(self, wl: Obj, edit: Any) -> Obj:
        meta = wl["metadata"]
        return self._world.store.change((WORKLOADS, meta["namespace"], meta["name"]), edit) or wl

    def _make(self, js: Obj, queue: str) -> None:
        if js.get("status", {}).get("terminalState"):
            return
        known, priority, reference = self._priority(js)
        if not known:
            return
        meta = js["metadata"]
        spec: dict[str, Any] = {"active": True, "podSets": pod_sets(js), "priority": priority}
        if reference:
            spec["priorityClassRef"] = reference
        spec["queueName"] = queue
        made = self._world.create(
            WORKLOADS,
            {
                "metadata": {
                    "name": workload_name(js),
                    "namespace": meta["namespace"],
                    "labels": {"kueue.x-k8s.io/job-uid": meta["uid"]},
                    "finalizers": [IN_USE],
                    "ownerReferences": [owner(js)],
                },
                "spec": spec,
            },
        )
        told = f"Created Workload: {meta['namespace']}/{made['metadata']['name']}"
        self._world.event(js, "CreatedWorkload", told, by=_BY)

    def _priority(self, js: Obj) -> tuple[bool, int, dict[str, str] | None]:
        """Returns whether the priority is known, its value, and the class it comes from."""
        store = self._world.store
        if wanted := (js["metadata"].get("labels") or {}).get(PRIORITY):
            found = store.get("workloadpriorityclasses.kueue.x-k8s.io", "", wanted)
            if found is None:
                told = f'WorkloadPriorityClass.kueue.x-k8s.io "{wanted}" not found'
                self._world.event(js, "WorkloadPriorityClassNotFound", told, warning=True, by=_BY)
                return False, 0, None
            return True, found["value"], reference("kueue.x-k8s.io", "WorkloadPriorityClass", wanted)
        for rjob in js["spec"]["replicatedJobs"]:
            if wanted := rjob["template"]["spec"]["template"]["spec"].get("priorityClassName"):
                found = store.get("priorityclasses.scheduling.k8s.io", "", wanted)
                # Nothing but Kueue's own log says that this class does not exist.
                known = reference("scheduling.k8s.io", "PriorityClass", wanted)
                return found is not None, (found or {}).get("value", 0), known
        return True, 0, None

    def _follow(self, js: Obj, wl: Obj) -> None:
        if js.get("status", {}).get("terminalState"):
            self._finish(js, wl)
            return
        wl = self._progress(js, wl)
        if not find(wl, "QuotaReserved"):
            return
        suspended = bool(js["spec"].get("suspend"))
        if holds(wl, "Evicted"):
            if not suspended:
                self._stop(js, find(wl, "Evicted")["message"])
            elif not active(js) and self._settled(js) and holds(wl, "QuotaReserved"):
                self._requeue(wl)
        elif holds(wl, "Admitted") and suspended and self._settled(js):
            self._start(js, wl)
        elif not holds(wl, "Admitted") and not suspended:
            self._stop(js, "Not admitted by cluster queue")

    def _settled(self, js: Obj) -> bool:
        """Says whether the other controllers have seen that it is suspended; the real ones always were that quick."""
        owned = [self._world.store.at(key) for key in self._world.store.owned_by(js["metadata"]["uid"])]
        left = [one for one in owned if one and one["kind"] == "Job" and not holds(one, "Complete")]
        return holds(js, "Suspended") and bool(left) and all(holds(one, "Suspended") for one in left)

    def _finish(self, js: Obj, wl: Obj) -> None:
        good = find(js, "Completed")
        ended = good or find(js, "Failed")
        reason = "Succeeded" if good else "Failed"
        written = self._set(
            wl, lambda obj: put_seen(obj, "Finished", "True", reason, ended["message"], before="PodsReady")
        )
        meta = written["metadata"]
        told = f"Workload '{meta['namespace']}/{meta['name']}' is declared finished"
        self._world.event(js, "FinishedWorkload", told, by=_BY)

    def _progress(self, js: Obj, wl: Obj) -> Obj:
        """Writes what is reclaimable, and whether all pods are ready."""
        given_back = reclaimable(js)

        def edit(obj: Obj) -> None:
            if given_back:
                obj["status"]["reclaimablePods"] = given_back
            if ready := readiness(js, obj):
                put_seen(obj, "PodsReady", *ready)

        return self._set(wl, edit) if wl.get("status") else wl

    def _start(self, js: Obj, wl: Obj) -> None:
        admission = wl["status"]["admission"]

        def edit(obj: Obj) -> None:
            obj["spec"]["suspend"] = False
            for rjob in obj["spec"]["replicatedJobs"]:
                self._place(rjob, wl, admission)

        self._change(js, edit)
        self._world.event(js, "Started", f"Admitted by clusterQueue {admission['clusterQueue']}", by=_BY)

    def _place(self, rjob: dict[str, Any], wl: Obj, admission: dict[str, Any]) -> None:
        """Marks a replicated job's pods with their queue, and gives them the labels of their flavor."""
        pods = rjob["template"]["spec"]["template"]
        meta = pods.setdefault("metadata", {})
        meta["labels"] = {
            **(meta.get("labels") or {}),
            "kueue.x-k8s.io/cluster-queue-name": admission["clusterQueue"],
            "kueue.x-k8s.io/local-queue-name": wl["spec"]["queueName"],
            "kueue.x-k8s.io/podset": rjob["name"],
        }
        note = {"kueue.x-k8s.io/workload": wl["metadata"]["name"]}
        meta["annotations"] = {**(meta.get("annotations") or {}), **note}
        for one in admission["podSetAssignments"]:
            if one["name"] != rjob["name"]:
                continue
            for name in one["flavors"].values():
                flavor = self._world.store.get("resourceflavors.kueue.x-k8s.io", "", name) or {}
                labels = flavor.get("spec", {}).get("nodeLabels") or {}
                if labels:
                    pods["spec"]["nodeSelector"] = {**(pods["spec"].get("nodeSelector") or {}), **labels}
                if extra := flavor.get("spec", {}).get("tolerations"):
                    pods["spec"]["tolerations"] = [*(pods["spec"].get("tolerations") or []), *extra]

    def _stop(self, js: Obj, why: str) -> None:
        self._change(js, lambda obj: obj["spec"].update(suspend=True))
        self._world.event(js, "Stopped", why, by=_BY)

    def _change(self, js: Obj, edit: Any) -> None:
        meta = js["metadata"]
        self._world.store.change((JOBSETS, meta["namespace"], meta["name"]), edit)

    def _requeue(self, wl: Obj) -> None:
        """Gives the quota of an evicted Workload back, once nothing of it runs."""
        evicted = find(wl, "Evicted")
        reason = evicted["reason"]

        def edit(obj: Obj) -> None:
            obj["status"].pop("admission", None)
            again = reason not in ("Deactivated", "ClusterQueueStopped", "LocalQueueStopped")
            told = reason_told(self._world, reason if reason == "Deactivated" else "PendingEvaluation")
            put_seen(obj, "QuotaReserved", "False", told, evicted["message"])
            put_seen(obj, "Admitted", "False", "NoReservation", "The workload has no reservation")
            put_seen(obj, "Requeued", "True" if again else "False", reason, evicted["message"])
            put_seen(obj, "PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded")

        self._set(wl, edit)
