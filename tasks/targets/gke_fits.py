"""Whether a workload could ever run on a cluster as it is: within its queue's quota, and on its nodes.

What never fits waits for its time to be over, holding what it has got: nobody else refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from runtime.contract.errors import Problem
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import KubernetesError, NotServed, PermissionDenied
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    CONFIG_MAP,
    LOCAL_QUEUE,
    NODE,
    RESOURCE_FLAVOR,
    Object,
)
from tasks.targets.kube_asked import Asked, asked_by
from tasks.targets.kube_beyond import beyond
from tasks.targets.kube_homes import homeless, kinds_of
from tasks.targets.kube_objects import metadata, name, spec

if TYPE_CHECKING:
    from tasks.cloud.container_model import Cluster
    from tasks.config.gke_target import GkeTargetConfig

_AUTOSCALER = ("cluster-autoscaler-status", "kube-system")
_KUEUE = ("kueue-manager-config", "kueue-system")
_EXCLUDED, _TRANSFORMED = "excludeResourcePrefixes", "transformations"
"""What lets Kueue count nothing, or other amounts, than pods ask for."""
_AUTOPILOT, _KARPENTER = "gk3-", "karpenter.sh/nodepool"


def never(
    cluster: Kubernetes,
    config: GkeTargetConfig,
    jobset: Object,
    grows: bool | None = None,
    local: Object | None = None,
) -> Iterator[Problem]:
    """Yields why a JobSet would wait for ever. An error where that is sure, a warning where machines may come.

    `grows`: whether machines come that are not there; None: the cluster is asked. `local`: its LocalQueue, where that
    was looked at. What may not be looked at is not judged. Raises KubernetesError.
    """
    asked = asked_by(jobset)
    flavors: Sequence[Object] = ()
    if config.queue is not None:
        try:
            queue, flavors = _queue(cluster, config.queue, local)
        except (NotServed, PermissionDenied):
            queue = None
        found = beyond(asked, queue, {name(one): one for one in flavors}) if queue is not None else None
        if found is not None:
            word = _EXCLUDED if found.uncovered else _TRANSFORMED
            yield Problem(
                "warning" if _is_told(cluster, word, unknown=found.uncovered) else "error",
                None,
                f"queue {config.queue} of {cluster.access.name} never has what the workload asks for: {found.why}",
                "it would wait for its turn for ever",
                "take fewer slices, less cpu: or memory:, another queue:, or have the quota raised",
            )
            return
    tolerated = [one for flavor in flavors for one in spec(flavor).get("tolerations") or ()]
    try:
        yield from _homes(cluster, asked, tolerated, grows)
    except PermissionDenied:
        return


def grows(config: GkeTargetConfig, there: Cluster) -> bool:
    """Whether GKE itself adds machines on which the target's pods could be."""
    kind = config.shape.machine_type
    return there.autoprovisions or any(
        pool.autoscaled and kind in ("", pool.machine_type) for pool in there.pools
    )


def _queue(cluster: Kubernetes, queue: str, local: Object | None) -> tuple[Object | None, Sequence[Object]]:
    """Returns the ClusterQueue behind a LocalQueue, and its flavors."""
    local = local or cluster.find(LOCAL_QUEUE, queue)
    there = cluster.find(CLUSTER_QUEUE, str(spec(local).get("clusterQueue"))) if local is not None else None
    if there is None:
        return None, ()
    groups = spec(there).get("resourceGroups") or ()
    wanted = {str(each.get("name")) for group in groups for each in group.get("flavors") or ()}
    return there, [one for one in cluster.list(RESOURCE_FLAVOR).items if name(one) in wanted]


def _homes(
    cluster: Kubernetes, asked: Sequence[Asked], tolerated: Sequence[Object], grows: bool | None
) -> Iterator[Problem]:
    seen: dict[str, Sequence[Object]] = {}
    for one in asked:
        selector = spec(one.template).get("nodeSelector") or {}
        key = str(sorted(selector.items()))
        if key not in seen:
            seen[key] = cluster.list(NODE, labels=selector or None).items
        why = homeless(one, seen[key], tolerated)
        if not why:
            continue
        every = seen[key] if not selector else cluster.list(NODE).items
        if not every:  # one whose machines come when they are asked for
            return
        if not seen[key] and (there := kinds_of(every, selector)):
            why += f"; there is {there}"
        may = _may_grow(cluster, every) if grows is None else grows
        what = f"the workload has no place on {cluster.access.name}: {why}"
        if may:
            yield Problem("warning", None, what, "it waits unless such machines come by themselves")
        else:
            fix = "take a type, slices, cpu: and memory: that its nodes have, or add nodes"
            yield Problem("error", None, what, "its pods would wait for ever", fix)
        return


def _may_grow(cluster: Kubernetes, nodes: Sequence[Object]) -> bool:
    """Whether machines may come by themselves, as far as the cluster tells: who may not look does not know better."""
    if any(
        name(one).startswith(_AUTOPILOT) or _KARPENTER in (metadata(one).get("labels") or {}) for one in nodes
    ):
        return True
    try:
        return cluster.find(CONFIG_MAP, *_AUTOSCALER) is not None
    except KubernetesError:
        return True


def _is_told(cluster: Kubernetes, word: str, *, unknown: bool) -> bool:
    """Whether Kueue's own configuration has a word; `unknown`: what is answered where one may not look."""
    try:
        there = cluster.find(CONFIG_MAP, *_KUEUE)
    except KubernetesError:
        return unknown
    text = "\n".join(str(value) for value in ((there or {}).get("data") or {}).values())
    return any(word in line.partition("#")[0] for line in text.splitlines())
