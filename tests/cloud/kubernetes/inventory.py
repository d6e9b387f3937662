"""What is left: objects that somebody made, processes that pods started, calls that still stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes.processes import marked

if TYPE_CHECKING:
    from tests.cloud.kubernetes.cluster import Cluster

_OF_THE_CLUSTER = {"nodes", "events"}
_SPACES = {"default", "kube-system", "kube-public", "kube-node-lease"}


def taken(cluster: Cluster) -> dict[str, Any]:
    """Returns objects by kind as `namespace/name`, without what a cluster has from the start, events and nodes."""
    store = cluster.world.store
    objects: dict[str, list[str]] = {}
    for kind in store.kinds():
        names = [_named(one) for one in store.list(kind)]
        if kind == "namespaces":
            names = [one for one in names if one not in _SPACES]
        if kind == "serviceaccounts":
            names = [one for one in names if not one.endswith("/default")]
        if names and kind not in _OF_THE_CLUSTER:
            objects[kind] = names
    return {
        "objects": objects,
        "processes": sorted(marked(cluster.world.mark)),
        "streams": cluster.connections.streams,
        "resource_version": store.rv,
    }


def _named(obj: dict[str, Any]) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])
