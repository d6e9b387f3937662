"""What the service refuses, with its codes and its words: names, zones, types, versions, tiers, times, quotas."""

from __future__ import annotations

import re
import time
from typing import Any

from google.cloud import tpu_v2

from tests.cloud.rpc import Refused
from tests.cloud.tpu.catalog import CONFIG_TYPES, KINDS, RUNTIMES, ZONES, Kind, kinds_in
from tests.cloud.tpu.store import World

_EID = "[EID: 0x5af3c0ffee12ab34]"
_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_QUEUED_ID = re.compile(r"[A-Za-z0-9_.~+%-]+")
_LABEL_KEY = re.compile(r"[a-z][-_a-z0-9]{0,62}")
_LABEL_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
_PARENT = re.compile(r"projects/([^/]+)/locations/([^/]+)")


def bad(message: str) -> Refused:
    """Returns the service's way to say that the request is wrong."""
    return Refused("INVALID_ARGUMENT", f"Cloud TPU received a bad request. {message} {_EID}")


def place(world: World, parent: str, *, any_zone: bool = False) -> tuple[str, str]:
    """Returns project and zone of a parent."""
    match = _PARENT.fullmatch(parent)
    if not match:
        raise bad(f"{parent!r} is not a location")
    project, zone = match[1], match[2]
    if project not in world["settings"]["projects"]:
        raise Refused(
            "PERMISSION_DENIED",
            f"Cloud TPU API has not been used in project {project} before or it is disabled.",
        )
    if zone not in ZONES and not (any_zone and zone == "-"):
        raise Refused("PERMISSION_DENIED", f"Permission denied on 'locations/{zone}' (or it may not exist).")
    return project, zone


def identifier(name: str) -> None:
    """Refuses ids that a node cannot have."""
    if not _ID.fullmatch(name):
        raise bad(f"The node id {name!r} is invalid: it must match ^[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?$")


def queued_identifier(name: str) -> None:
    """Refuses ids that a queued resource cannot have."""
    if not _QUEUED_ID.fullmatch(name) or len(name) > 63:
        raise bad(f"The queued resource id {name!r} is invalid: it must match ^[A-Za-z0-9_.~+%-]+$")


def kind_of(node: tpu_v2.Node, zone: str) -> Kind:
    """Returns the type a node asks for, refusing those that do not exist or not here."""
    has_config = "accelerator_config" in node
    if bool(node.accelerator_type) == has_config:
        raise bad("exactly one of accelerator_type and accelerator_config must be set")
    if node.accelerator_type:
        kind = KINDS.get(node.accelerator_type)
        named = node.accelerator_type
    else:
        config = node.accelerator_config
        chips = 1
        for side in config.topology.split("x"):
            chips *= int(side)
        family = CONFIG_TYPES.get(int(config.type_), "")
        kind = next((one for one in KINDS.values() if (one.family, one.chips) == (family, chips)), None)
        named = f"{family} {config.topology}"
    if kind is None or kind not in kinds_in(zone):
        raise bad(f"the accelerator {named} was not found in zone {zone}")
    return kind


def check_node(node: tpu_v2.Node, zone: str, *, queued: bool) -> Kind:
    """Refuses a node that cannot be made; returns its type."""
    kind = kind_of(node, zone)
    if not node.runtime_version:
        raise bad("runtime_version is required")
    if node.runtime_version not in RUNTIMES:
        raise bad(f"the runtime version {node.runtime_version} was not found in zone {zone}")
    _labels(dict(node.labels))
    scheduling = node.scheduling_config
    if sum((scheduling.spot, scheduling.preemptible, scheduling.reserved)) > 1:
        raise bad("at most one of spot, preemptible and reserved may be set")
    if queued and (scheduling.spot or scheduling.preemptible or scheduling.reserved):
        raise bad("scheduling_config cannot be set for a queued resource's node: use its tier")
    if "network_config" in node and node.network_configs:
        raise bad("at most one of network_config and network_configs may be set")
    return kind


def _labels(labels: dict[str, str]) -> None:
    if len(labels) > 64:
        raise bad("a resource takes at most 64 labels")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise bad(f"label {key}={value} is invalid")


def check_queued(
    world: World, queued: tpu_v2.QueuedResource, queued_id: str, zone: str
) -> list[dict[str, Any]]:
    """Refuses a queued resource that cannot be made; returns the nodes it is to get: id, kind, message as JSON."""
    specs = list(queued.tpu.node_spec)
    if not specs:
        raise bad("tpu.node_spec is required")
    nodes = []
    for spec in specs:
        if spec.parent != f"projects/{spec.parent.split('/')[1]}/locations/{zone}":
            raise bad("node_spec.parent must be the location of the queued resource")
        kind = check_node(spec.node, zone, queued=True)
        names = [spec.node_id]
        if "multislice_params" in spec:
            count = spec.multislice_params.node_count
            if spec.node_id or count < 2:
                raise bad("multislice_params.node_count must be greater than 1, without node_id")
            prefix = spec.multislice_params.node_id_prefix or queued_id
            names = [f"{prefix}-{index}" for index in range(count)]
        for name in names:
            identifier(name)
            nodes.append({"id": name, "kind": kind.name, "spec": tpu_v2.Node.to_dict(spec.node)})
    if "spot" in queued and "guaranteed" in queued:
        raise bad("at most one tier may be set")
    reservation = queued.reservation_name
    if reservation and "spot" in queued:
        raise bad("a spot request cannot use a reservation")
    if reservation and reservation not in world["settings"]["reservations"]:
        raise bad(f"the reservation {reservation} was not found")
    begin, until = window(queued)
    if until is not None and until <= max(begin or 0.0, time.time()):
        raise bad("the queueing policy ends before it begins")
    return nodes


def window(queued: tpu_v2.QueuedResource) -> tuple[float | None, float | None]:
    """Returns from when and until when the resource may be made, in seconds since the epoch."""
    policy, now = queued.queueing_policy, time.time()
    if "valid_until_duration" in policy:
        return None, now + policy.valid_until_duration.total_seconds()
    if "valid_until_time" in policy:
        return None, policy.valid_until_time.timestamp()
    if "valid_after_duration" in policy:
        return now + policy.valid_after_duration.total_seconds(), None
    if "valid_after_time" in policy:
        return policy.valid_after_time.timestamp(), None
    if "valid_interval" in policy:
        interval = policy.valid_interval
        begin = interval.start_time.ToSeconds() if interval.HasField("start_time") else None
        return begin, interval.end_time.ToSeconds() if interval.HasField("end_time") else None
    return None, None


def check_quota(world: World, zone: str, kind: Kind, count: int, spot: bool) -> None:
    """Refuses what would exceed the chips granted: everything not yet gone counts, whatever its state."""
    limit = world["settings"]["quotas"].get(f"{zone}/{kind.family}")
    if limit is None:
        return
    used = 0
    for node in world["nodes"].values():
        if not node["queued"] and (node["zone"], KINDS[node["kind"]].family) == (zone, kind.family):
            used += KINDS[node["kind"]].chips
    for queued in world["queued"].values():
        if queued["zone"] == zone:
            used += sum(
                KINDS[n["kind"]].chips for n in queued["specs"] if KINDS[n["kind"]].family == kind.family
            )
    if used + count * kind.chips > limit:
        metric = f"TPU{kind.family.upper()}{'Preemptible' if spot else ''}PerProjectPerRegionForTPUAPI"
        region = zone.rsplit("-", 1)[0]
        raise Refused(
            "RESOURCE_EXHAUSTED",
            f"Quota limit '{metric}' has been exceeded. Limit: {limit} in region {region}.",
        )


def no_capacity(zone: str) -> str:
    """Returns what the service says when a zone has nothing left."""
    return (
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are '
        f"offered (see https://cloud.google.com/tpu/docs/regions) {_EID}"
    )
