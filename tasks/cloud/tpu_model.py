"""What Cloud TPU's API tells and is told, as plain data: nodes, queued resources, and requests for them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Tier = Literal["on_demand", "spot", "reserved"]

GONE_BUT_THERE = frozenset({"PREEMPTED", "TERMINATED", "STOPPED", "STOPPING", "DELETING", "HIDING", "HIDDEN"})
"""States of a node that will not run anything again by itself; all but DELETING hold quota until it is deleted."""

NEVER_ACTIVE = frozenset({"FAILED", "SUSPENDING", "SUSPENDED", "DELETING"})
"""States of a queued resource that will not come to nodes any more; they hold quota until it is deleted."""


OS_LOGIN = "enable-oslogin"
"""Metadata that says whether OS Login decides; what a VM says of itself outranks what its project says."""


@dataclass(frozen=True)
class Address:
    """Where a worker is reached: inside the network, and from outside where it has such an address."""

    internal: str
    external: str | None = None


@dataclass(frozen=True)
class Node:
    """A TPU VM: one slice. `addresses` are in the order of workers; `queued` names the queued resource it is from."""

    project: str
    zone: str
    name: str
    uid: str
    state: str
    type: str
    runtime_version: str
    health: str = ""
    health_text: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    addresses: Sequence[Address] = ()
    queued: str = ""
    spot: bool = False
    created_at: float = 0.0

    @property
    def os_login(self) -> bool:
        """Whether OS Login decides who gets in: the guest then takes no notice of keys in the metadata."""
        return self.metadata.get(OS_LOGIN, "").strip().lower() in ("true", "t", "1", "yes", "y")


@dataclass(frozen=True)
class Queued:
    """A queued resource. `nodes` are the names its slices have or will have, in order; `error` says why it FAILED.

    `valid_after` and `valid_until` are the times between which it may come up, in seconds since the epoch.
    """

    project: str
    zone: str
    name: str
    uid: str
    state: str
    type: str
    nodes: Sequence[str]
    initiator: str = ""
    error_code: int = 0
    error: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    spot: bool = False
    reservation: str = ""
    created_at: float = 0.0
    valid_after: float | None = None
    valid_until: float | None = None


@dataclass(frozen=True)
class Operation:
    """Something that was asked for: which verb, on what (last part of its name), when, how it failed (code 0: not)."""

    verb: str
    name: str
    begun_at: float
    code: int = 0
    error: str = ""


@dataclass(frozen=True)
class NodeRequest:
    """A slice to be made. `reservation` is a full name, or empty: any. `scopes` are OAuth scopes."""

    type: str
    runtime_version: str
    labels: Mapping[str, str]
    tier: Tier = "on_demand"
    reservation: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    network: str = ""
    subnetwork: str = ""
    external_addresses: bool = True
    service_account: str = ""
    tags: Sequence[str] = ()
    description: str = ""


@dataclass(frozen=True)
class QueuedRequest:
    """Slices to be made when there is room. One node: it is called `node_name`; several: `node_name`-0, -1, …"""

    node: NodeRequest
    node_name: str
    slices: int = 1
    valid_after: datetime.datetime | None = None
    valid_until: datetime.datetime | None = None


_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def node_of(message: Any) -> Node:
    """Returns a node from the API's message."""
    project, zone, name = split_name(message.name)
    scheduling = message.scheduling_config
    return Node(
        project=project,
        zone=zone,
        name=name,
        uid=str(message.id),
        state=message.state.name,
        type=message.accelerator_type,
        runtime_version=message.runtime_version,
        health=message.health.name,
        health_text=message.health_description,
        labels=dict(message.labels),
        metadata=dict(message.metadata),
        addresses=tuple(_address(endpoint) for endpoint in message.network_endpoints),
        queued=split_name(message.queued_resource)[2] if message.queued_resource else "",
        spot=scheduling.spot or scheduling.preemptible,
        created_at=message.create_time.timestamp() if message.create_time else 0.0,
    )


def queued_of(message: Any) -> Queued:
    """Returns a queued resource from the API's message. It has no id of its own: the time it was made is its uid."""
    project, zone, name = split_name(message.name)
    created_at = message.create_time.timestamp() if message.create_time else 0.0
    specs = list(message.tpu.node_spec)
    failed = message.state.failed_data.error
    valid_after, valid_until = _window(message.queueing_policy, created_at)
    return Queued(
        project=project,
        zone=zone,
        name=name,
        uid=f"{created_at:.6f}",
        state=message.state.state.name,
        type=specs[0].node.accelerator_type if specs else "",
        nodes=tuple(node for spec in specs for node in _nodes_of(spec, name)),
        initiator=message.state.state_initiator.name,
        error_code=failed.code if failed else 0,
        error=failed.message if failed else "",
        labels=dict(specs[0].node.labels) if specs else {},
        spot="spot" in message,
        reservation=message.reservation_name,
        created_at=created_at,
        valid_after=valid_after,
        valid_until=valid_until,
    )


def operation_of(message: Any) -> Operation:
    """Returns an operation from the API's message; one of another service has neither verb nor name."""
    from google.cloud import tpu_v2

    metadata: Any = tpu_v2.OperationMetadata.pb(tpu_v2.OperationMetadata())
    if not message.metadata.Unpack(metadata):
        return Operation("", "", 0.0)
    begun = metadata.create_time
    name = metadata.target.rsplit("/", 1)[-1]
    return Operation(
        metadata.verb, name, begun.seconds + begun.nanos / 1e9, message.error.code, message.error.message
    )


def node_message(request: NodeRequest, *, queued: bool) -> Any:
    """Returns the API's message for a slice to be made; a queued resource has the tier itself."""
    from google.cloud import tpu_v2

    network = tpu_v2.NetworkConfig(
        network=request.network,
        subnetwork=request.subnetwork,
        enable_external_ips=request.external_addresses,
    )
    node = tpu_v2.Node(
        accelerator_type=request.type,
        runtime_version=request.runtime_version,
        description=request.description,
        labels=dict(request.labels),
        metadata=dict(request.metadata),
        network_config=network,
        tags=list(request.tags),
        service_account=tpu_v2.ServiceAccount(email=request.service_account, scope=[_SCOPE]),
    )
    if not queued and request.tier != "on_demand":
        node.scheduling_config = tpu_v2.SchedulingConfig(
            spot=request.tier == "spot", reserved=request.tier == "reserved"
        )
    return node


def queued_message(request: QueuedRequest, parent: str) -> Any:
    """Returns the API's message for a queued resource."""
    from google.cloud import tpu_v2

    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=parent, node=node_message(request.node, queued=True))
    if request.slices == 1:
        spec.node_id = request.node_name
    else:
        spec.multislice_params = tpu_v2.QueuedResource.Tpu.NodeSpec.MultisliceParams(
            node_count=request.slices, node_id_prefix=request.node_name
        )
    queued = tpu_v2.QueuedResource(tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]))
    if request.node.tier == "spot":
        queued.spot = tpu_v2.QueuedResource.Spot()
    else:
        queued.guaranteed = tpu_v2.QueuedResource.Guaranteed()
    if request.node.tier == "reserved":
        queued.reservation_name = request.node.reservation
    policy = _policy(request.valid_after, request.valid_until)
    if policy is not None:
        queued.queueing_policy = policy
    return queued


def split_name(name: str) -> tuple[str, str, str]:
    """Returns project, zone and last part of a full name."""
    parts = name.split("/")
    return parts[1], parts[3], parts[-1]


def _policy(after: datetime.datetime | None, until: datetime.datetime | None) -> Any:
    """Returns from when and until when resources may be made; None: at any time."""
    from google.cloud import tpu_v2
    from google.protobuf import timestamp_pb2
    from google.type import interval_pb2

    if after is None and until is None:
        return None
    policy = tpu_v2.QueuedResource.QueueingPolicy()
    if after is None:
        policy.valid_until_time = until
    elif until is None:
        policy.valid_after_time = after
    else:
        start, end = timestamp_pb2.Timestamp(), timestamp_pb2.Timestamp()
        start.FromDatetime(after)
        end.FromDatetime(until)
        policy.valid_interval = interval_pb2.Interval(start_time=start, end_time=end)
    return policy


def _window(policy: Any, created_at: float) -> tuple[float | None, float | None]:
    """Returns from when and until when a queued resource may come up, in seconds since the epoch."""
    after = until = None
    if "valid_after_time" in policy:
        after = policy.valid_after_time.timestamp()
    elif "valid_after_duration" in policy:
        after = created_at + policy.valid_after_duration.total_seconds()
    elif "valid_until_time" in policy:
        until = policy.valid_until_time.timestamp()
    elif "valid_until_duration" in policy:
        until = created_at + policy.valid_until_duration.total_seconds()
    elif "valid_interval" in policy:
        interval = policy.valid_interval
        after = float(interval.start_time.ToSeconds()) if interval.HasField("start_time") else None
        until = float(interval.end_time.ToSeconds()) if interval.HasField("end_time") else None
    return after, until


def _nodes_of(spec: Any, queued: str) -> list[str]:
    if "multislice_params" not in spec:
        return [spec.node_id]
    prefix = spec.multislice_params.node_id_prefix or queued
    return [f"{prefix}-{index}" for index in range(spec.multislice_params.node_count)]


def _address(endpoint: Any) -> Address:
    return Address(endpoint.ip_address, endpoint.access_config.external_ip or None)
