"""What GKE's API tells, as plain data: clusters, node pools, operations, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.cloud.labels import LEASE, LEASE_REST

Capacity = Literal["spot", "on_demand", "reservation", "flex_start"]

GOOD = frozenset({"RUNNING", "RECONCILING"})
"""States of a cluster or node pool that works, or is being changed."""


@dataclass(frozen=True)
class Pool:
    """A node pool. `size` is the nodes that it began with, per zone, or has now where those were looked at (see
    `as_now`); `why` says what is wrong with it.

    There is nothing in the API that tells a pool from a later one of its name, so `uid` is its cluster's, its name,
    and the lease by whose label it was made.
    """

    project: str
    location: str
    cluster: str
    name: str
    uid: str
    state: str
    machine_type: str
    size: int
    zones: Sequence[str] = ()
    topology: str = ""
    why: str = ""
    conditions: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Capacity = "on_demand"
    reservation: str = ""
    autoscaled: bool = False
    """Nodes come when pods ask for them, at most `most` of them."""
    most: int = 0
    accelerator: str = ""
    accelerators: int = 0
    groups: Sequence[str] = ()
    """The groups of machines that it is made of, one in each zone, as URLs of Compute Engine."""
    network_profile: str = ""
    """How GKE makes networks for its accelerators: auto, or not at all."""

    @property
    def machines(self) -> int:
        """How many nodes it is to have, or may come to have, in all its zones."""
        return (self.most if self.autoscaled else self.size) * max(1, len(self.zones))


@dataclass(frozen=True)
class Cluster:
    """A cluster. `ca` is the certificate of its control plane, PEM; `endpoint` where that is, `dns` its name where that
    is answered to from outside. Both are empty while it is being made.
    """

    project: str
    location: str
    name: str
    uid: str
    state: str
    pools: Sequence[Pool] = ()
    zones: Sequence[str] = ()
    why: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    endpoint: str = ""
    dns: str = ""
    ca: bytes = b""
    version: str = ""
    private: bool = False
    workload_identity: bool = False
    created_at: float = 0.0
    autoprovisions: bool = False
    """GKE itself adds node pools when pods ask for them."""

    def pool(self, name: str) -> Pool | None:
        """Returns a pool by its name."""
        return next((pool for pool in self.pools if pool.name == name), None)


@dataclass(frozen=True)
class Operation:
    """Something that was asked for: of which type, on what (cluster, and pool where it is one), how it ended."""

    name: str
    type: str
    done: bool
    cluster: str
    pool: str = ""
    code: int = 0
    error: str = ""
    begun_at: str = ""


@dataclass(frozen=True)
class Versions:
    """Versions of GKE in a location: every one, and by channel, newest first; which a channel gives unasked."""

    default: str
    valid: Sequence[str]
    by_channel: Mapping[str, Sequence[str]]
    defaults: Mapping[str, str]


def cluster_of(project: str, message: Any) -> Cluster:
    """Returns a cluster from the API's message."""
    control = message.control_plane_endpoints_config
    return Cluster(
        project=project,
        location=message.location,
        name=message.name,
        uid=message.id,
        state=message.status.name,
        pools=tuple(
            pool_of(project, message.location, message.name, message.id, pool) for pool in message.node_pools
        ),
        zones=tuple(message.locations),
        why=message.status_message or "; ".join(one.message for one in message.conditions),
        labels=dict(message.resource_labels),
        fingerprint=message.label_fingerprint,
        endpoint=message.endpoint,
        dns=_dns_name(control.dns_endpoint_config),
        ca=_certificate(message.master_auth.cluster_ca_certificate),
        version=message.current_master_version,
        private=message.private_cluster_config.enable_private_nodes,
        workload_identity=bool(message.workload_identity_config.workload_pool),
        created_at=_seconds(message.create_time),
        autoprovisions=message.autoscaling.enable_node_autoprovisioning,
    )


def pool_of(project: str, location: str, cluster: str, cluster_uid: str, message: Any) -> Pool:
    """Returns a node pool from the API's message."""
    config = message.config
    labels = dict(config.resource_labels)
    lease = labels.get(LEASE, "") + labels.get(LEASE_REST, "")
    affinity = config.reservation_affinity
    reservation = affinity.values[0] if affinity.values else ""
    capacity: Capacity = (
        "flex_start"
        if config.flex_start
        else "spot"
        if config.spot
        else "reservation"
        if reservation
        else "on_demand"
    )
    gpus = list(config.accelerators)
    return Pool(
        project=project,
        location=location,
        cluster=cluster,
        name=message.name,
        uid=f"{cluster_uid} {message.name} {lease}".strip(),
        state=message.status.name,
        machine_type=config.machine_type,
        size=message.initial_node_count,
        zones=tuple(message.locations),
        topology=message.placement_policy.tpu_topology,
        why=message.status_message or "; ".join(one.message for one in message.conditions),
        conditions=tuple(one.code.name for one in message.conditions),
        labels=labels,
        capacity=capacity,
        reservation=reservation,
        autoscaled=message.autoscaling.enabled,
        most=message.autoscaling.max_node_count or message.autoscaling.total_max_node_count,
        accelerator=gpus[0].accelerator_type if gpus else "",
        accelerators=gpus[0].accelerator_count if gpus else 0,
        groups=tuple(message.instance_group_urls),
        network_profile=message.network_config.accelerator_network_profile,
    )


def operation_of(message: Any) -> Operation:
    """Returns an operation from the API's message."""
    target = message.target_link.partition("/clusters/")[2].split("/")
    return Operation(
        name=message.name,
        type=message.operation_type.name,
        done=message.status.name == "DONE",
        cluster=target[0],
        pool=target[2] if len(target) > 2 else "",
        code=message.error.code if message.error else 0,
        error=(message.error.message if message.error else "") or message.status_message,
        begun_at=message.start_time,
    )


def versions_of(message: Any) -> Versions:
    """Returns versions from the API's message."""
    return Versions(
        message.default_cluster_version,
        tuple(message.valid_master_versions),
        {one.channel.name: tuple(one.valid_versions) for one in message.channels},
        {one.channel.name: one.default_version for one in message.channels},
    )


def _dns_name(config: Any) -> str:
    """Returns the DNS name of a control plane: every new one has one, and most answer there to nobody."""
    return str(config.endpoint) if config.allow_external_traffic else ""


def _certificate(encoded: str) -> bytes:
    import base64

    return base64.b64decode(encoded) if encoded else b""


def _seconds(text: str) -> float:
    import datetime

    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:  # not told, or in another way: it is for people only
        return 0.0
