"""A queue of Kueue for the node pools that runs add to somebody else's cluster: theirs knows nothing of them.

Their ClusterQueue has no quota for our machines, and its quota is theirs to change. So ours get one of their own, with
a flavor that leads its workloads to nodes of our pools alone: those are labelled, and a taint keeps others' pods off
them, which would be gone with the pools. It belongs to the lease of the pools, and goes with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tasks.cloud.container_model import Cluster
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_kinds import CLUSTER_QUEUE, LOCAL_QUEUE, NODE
from tasks.cloud.kubernetes_places import place_of_cluster, signed
from tasks.cloud.labels import LEASE, labels_for, read_labels
from tasks.leases.holding import Holding
from tasks.leases.queues import QUEUE, queue_name
from tasks.targets.kube_queues import MANAGED, Names, flavors, manifests, priority_classes
from tasks.targets.kube_room import held_in, room_of


def is_wanted(api: Kubernetes, queue: str | None) -> bool:
    """Whether a cluster of others has Kueue, and the workload is to wait in a queue."""
    return queue is not None and api.serves(CLUSTER_QUEUE)


def make(
    api: Kubernetes,
    own: Holding,
    there: Cluster,
    say: Callable[[str], None],
    limits: tuple[int | None, int | None] = (None, None),
) -> str:
    """Makes the queue of the lease that has the pools, or repairs it; returns its name.

    It may give out as many processors and bytes of memory as `limits` say, of each kind of machine.
    """
    place = place_of_cluster(there.project, there.location, there.name)
    scope = signed(f"{place}/{api.access.namespace}", api.access)
    lease_id = own.lease.lease_id
    name = queue_name(lease_id)
    labels = labels_for(lease_id, own.ledger.id)
    names = Names(name, name, f"{name}-", {**MANAGED, **labels}, {LEASE: labels[LEASE]}, LEASE)
    wanted = flavors(held_in(_ours(there, lease_id)), room_of(api.list(NODE).items), *limits)

    def put() -> str:
        for kind, manifest in priority_classes({**MANAGED, **labels}):
            if api.find(kind, manifest["metadata"]["name"]) is None:
                api.apply(manifest, kind=kind)
        for kind, manifest in manifests(wanted, api.access.namespace, names):
            api.apply(manifest, kind=kind)
        return name

    known = own.lease.find(QUEUE, scope, name)
    if known is not None and known.uid is not None:
        return put()
    say(f"making queue {name} for what is added to {there.name}: the queues that are there stay as they are")
    own.create(QUEUE, scope, name, put)
    return name


def lead_to(api: Kubernetes, name: str, lease_id: str, ledger_id: str) -> None:
    """Lets a way lead to the queue from this namespace, which may be another than that of the run that made it."""
    if api.find(LOCAL_QUEUE, name) is None:
        labels = {**MANAGED, **labels_for(lease_id, ledger_id)}
        there = {"name": name, "namespace": api.access.namespace, "labels": labels}
        api.apply({"metadata": there, "spec": {"clusterQueue": name}}, kind=LOCAL_QUEUE)


def _ours(there: Cluster, lease_id: str) -> Cluster:
    """Returns the cluster with the pools of a lease alone."""
    found = ((pool, read_labels(pool.labels)) for pool in there.pools)
    return replace(there, pools=tuple(pool for pool, told in found if told and told.lease_id == lease_id))
