"""What is inside a cluster of GKE: nodes of its pools and what runs on them; JobSet, Kueue and the queue put in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.container_model import Cluster
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import NotFound, NotServed
from tasks.cloud.kubernetes_gke import access_of
from tasks.cloud.kubernetes_kinds import ALL_NAMESPACES, JOB_SET, NODE, POD, Object
from tasks.cloud.kubernetes_labels import NODE_POOL
from tasks.cloud.labels import read_labels
from tasks.cloud.timing import Timing
from tasks.config import size
from tasks.config.cluster import ClusterConfig
from tasks.leases.holding import Holding
from tasks.targets import kube_own_queue
from tasks.targets.kube_install import USUAL, Waits, controllers, fetched, set_up
from tasks.targets.kube_objects import is_true, metadata, name, spec
from tasks.targets.kube_room import held_in

_LOOK = Timing(total_s=20.0)
_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
_ENDS = ("Completed", "Failed")
_OF_THE_NODE = ("DaemonSet", "Node")
"""Owners of pods that every node has: they say nothing of its use."""


@dataclass(frozen=True)
class Nodes:
    """Nodes of a pool as Kubernetes knows them: how many there are, are ready, and have something running on them."""

    present: int
    healthy: int
    used: int


@dataclass(frozen=True)
class Inside:
    """Looks into clusters of GKE and sets them up, by their own APIs. `waits`: for what is put in.

    `fetching`: how long releases are asked for.
    """

    say: Callable[[str], None] = lambda line: None
    waits: Waits = USUAL
    namespace: str = "default"
    fetching: Timing | None = None

    no_way: ClassVar[str] = (
        "where there is no way to it, --no-install leaves JobSet and Kueue out, and a target's make: {queueing: "
        "{jobset: {manifests: FILE}, kueue: {manifests: FILE}}} names files in its place"
    )
    """What to do where the releases cannot be had."""

    def ready(self, config: ClusterConfig) -> None:
        """Sees that what would be put into a cluster can be had, before one is made. Raises as `fetched`, with what to
        do.
        """
        try:
            fetched(config.queueing, timing=self.fetching)
        except BadInput:
            raise
        except InfrastructureError as error:
            raise InfrastructureError(f"{error}: {self.no_way}") from error

    def set_up(self, cluster: Cluster, config: ClusterConfig) -> None:
        """Puts JobSet, Kueue and the queue into a cluster, or repairs them. Raises as kube_install.set_up."""
        if config.queueing.install:
            api = Kubernetes(access_of(cluster, self.namespace))
            set_up(api, held_in(cluster, config), config, self.say, patience=self.waits)

    def add(self, cluster: Cluster, config: ClusterConfig, own: Holding) -> None:
        """Puts into somebody else's cluster what workloads on slices of this lease need: a queue of their own.

        JobSet and Kueue as well, where they are missing; these stay, for others may use them by the time it goes.
        """
        api = Kubernetes(access_of(cluster, self.namespace))
        controllers(api, held_in(cluster), config, self.say, patience=self.waits)
        memory = config.queueing.memory_limit
        limits = config.queueing.cpu_limit, size.in_bytes(memory) if memory else None
        queue = kube_own_queue.make(api, own, cluster, self.say, limits)
        self.say(
            f"workloads get to what is added by queue {queue}; a run that names the cluster finds it by itself"
        )

    def nodes(self, cluster: Cluster) -> Mapping[str, Nodes] | None:
        """Returns the nodes of each pool that has any; None, and says why, where nobody can look."""
        try:
            api = Kubernetes(access_of(cluster), timing=_LOOK)
            nodes = api.list(NODE).items
            return count(nodes, api.list(POD, ALL_NAMESPACES, fields=_ENDED).items)
        except (BadInput, InfrastructureError) as error:  # no login for it, no way to it, no answer
            self.say(f"what is inside cluster {cluster.name} cannot be seen: {error}")
            return None

    def busy(self, cluster: Cluster) -> Mapping[str, bool]:
        """Returns of each pool whether something runs on it; says nothing of those that cannot be seen."""
        return {pool: bool(one.used) for pool, one in (self.nodes(cluster) or {}).items()}

    def going_on(self, cluster: Cluster) -> Sequence[str] | None:
        """Returns the JobSets that have not ended, and whose they are; None, and says why, where nobody can look."""
        try:
            sets = Kubernetes(access_of(cluster), timing=_LOOK).list(JOB_SET, ALL_NAMESPACES).items
        except (NotServed, NotFound):  # nothing knows JobSets there
            return []
        except (BadInput, InfrastructureError) as error:
            self.say(f"what is inside cluster {cluster.name} cannot be seen: {error}")
            return None
        return sorted(_whose(one) for one in sets if not any(is_true(one, end) for end in _ENDS))


def _whose(one: Object) -> str:
    labelled = read_labels(metadata(one).get("labels") or {})
    owner = f" of {labelled.owner}" if labelled and labelled.owner else ""
    return f"{metadata(one).get('namespace', 'default')}/{name(one)}{owner}"


def count(nodes: Iterable[Object], pods: Iterable[Object]) -> Mapping[str, Nodes]:
    """Returns the nodes of each pool by its name. `pods`: those that have not ended."""
    used = {spec(pod).get("nodeName", "") for pod in pods if not _of_the_node(pod)}
    found: dict[str, Nodes] = {}
    for node in nodes:
        pool = (metadata(node).get("labels") or {}).get(NODE_POOL, "")
        before = found.get(pool, Nodes(0, 0, 0))
        found[pool] = Nodes(
            before.present + 1,
            before.healthy + (is_true(node, "Ready") is not None),
            before.used + (name(node) in used),
        )
    return found


def _of_the_node(pod: Object) -> bool:
    return any(one.get("kind") in _OF_THE_NODE for one in metadata(pod).get("ownerReferences") or [])
