"""A list of workloads counts places in the queue as an explanation does: over all namespaces that share the quota."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from tasks.cloud.kubernetes_errors import PermissionDenied
from tasks.cloud.kubernetes_kinds import ALL_NAMESPACES, Kind
from tasks.stages.workload_desk import Desk
from tasks.stages.workloads import listing


class Kube:
    """A cluster in which two namespaces want one ClusterQueue's quota."""

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed

    def list(self, kind: Kind, namespace: str, labels: str | None = None) -> Any:
        if self.closed and namespace == ALL_NAMESPACES:
            raise PermissionDenied("no")
        there = {"Workload": waiting, "LocalQueue": local_queue}.get(kind.name)
        where = ("mine", "theirs") if namespace == ALL_NAMESPACES else (namespace,)
        return SimpleNamespace(items=[there(one) for one in where] if there else [])


def waiting(namespace: str) -> Mapping[str, Any]:
    made = "2026-01-01T00:00:00Z" if namespace == "theirs" else "2026-01-02T00:00:00Z"
    metadata = {"name": f"w-{namespace}", "namespace": namespace, "uid": namespace, "creationTimestamp": made}
    return {"kind": "Workload", "metadata": metadata, "spec": {"queueName": "q"}}


def local_queue(namespace: str) -> Mapping[str, Any]:
    metadata = {"name": "q", "namespace": namespace, "uid": f"q-{namespace}"}
    return {"kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": "all"}}


def test_who_waits_in_another_namespace_for_the_same_quota_counts() -> None:
    [row] = listing(Desk(Kube(), "mine"), "EVERYTHING", "")  # type: ignore[arg-type]
    assert (row.name, str(row.position)) == ("w-mine", "place 2 of 2 in queue all")


def test_where_other_namespaces_may_not_be_seen_ones_own_counts() -> None:
    [row] = listing(Desk(Kube(closed=True), "mine"), "EVERYTHING", "")  # type: ignore[arg-type]
    assert (row.name, str(row.position)) == ("w-mine", "place 1 of 1 in queue all")
