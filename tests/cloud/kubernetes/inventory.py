"""What is left: objects that somebody made, processes that pods started, calls that still stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes.processes import marked
from tests.cloud.kubernetes.store import Key
from tests.cloud.kubernetes.world import ROOT_CA

if TYPE_CHECKING:
    from tests.cloud.kubernetes.cluster import Cluster

_OF_THE_CLUSTER = {"nodes", "events"}
_OF_EACH_SPACE = {("serviceaccounts", "default"), ("configmaps", ROOT_CA)}
_SPACES = {"default", "kube-system", "kube-public", "kube-node-lease"}


def taken(cluster: Cluster) -> dict[str, Any]:
    """Returns objects by kind as `namespace/name`, without what a cluster has from the start, events and nodes."""
    store = cluster.world.store
    objects: dict[str, list[str]] = {}
    for kind, space, name in _made(cluster):
        if (kind, name) not in _OF_EACH_SPACE:
            objects.setdefault(kind, []).append(f"{space}/{name}" if space else name)
    return {
        "objects": objects,
        "processes": sorted(marked(cluster.world.mark)),
        "streams": cluster.connections.streams,
        "resource_version": store.rv,
    }


def emptied(cluster: Cluster) -> None:
    """Takes away all that anybody made, at once."""
    for key in list(_made(cluster)):
        cluster.world.store.remove(key)


def _made(cluster: Cluster) -> Iterator[Key]:
    store = cluster.world.store
    for kind in store.kinds():
        for one in store.list(kind) if kind not in _OF_THE_CLUSTER else ():
            space, name = one["metadata"].get("namespace", ""), one["metadata"]["name"]
            standing = (kind == "namespaces" and name in _SPACES) or (
                (kind, name) in _OF_EACH_SPACE and space in _SPACES
            )
            if not standing:
                yield kind, space, name
