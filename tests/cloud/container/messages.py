"""Turns what the stand-in remembers into the messages of the container API."""

from __future__ import annotations

import base64
import datetime
import hashlib
from typing import Any

from google.cloud import container_v1
from google.protobuf import json_format

from tests.cloud.container.catalog import CHANNELS, VERSIONS
from tests.cloud.container.store import World

CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nnot a real one\n-----END CERTIFICATE-----\n"


_COMPUTE = "https://www.googleapis.com/compute/v1"


def group_of(cluster: str, pool: str) -> str:
    """Returns the name of the groups of machines that a pool has, one in each of its zones."""
    mark = hashlib.sha256(f"{cluster} {pool}".encode()).hexdigest()[:8]
    return f"gke-{cluster.rsplit('/', 1)[1][:16]}-{pool[:16]}-{mark}-grp"


def spec_of(message: Any) -> dict[str, Any]:
    """Returns what was asked for as JSON, with the API's own names and enums by name."""
    told: dict[str, Any] = json_format.MessageToDict(
        type(message).pb(message), preserving_proto_field_name=True
    )
    return told


def version_of_policy(spec: dict[str, Any]) -> str:
    """Returns what tells a maintenance policy from another one; empty: there is none."""
    policy = spec.get("maintenance_policy")
    return hashlib.sha256(repr(policy).encode()).hexdigest()[:8] if policy else ""


def mark_of(stored: dict[str, Any]) -> str:
    """Returns the etag of a cluster or node pool: another one once anything of it is another."""
    return hashlib.sha256(repr((stored["spec"], stored["status"])).encode()).hexdigest()[:8]


def cluster_message(world: World, key: str) -> container_v1.Cluster:
    """Returns a cluster as `GetCluster` tells it, with its pools."""
    stored = world["clusters"][key]
    message = _parsed(container_v1.Cluster, stored["spec"])
    location = key.split("/")[3]
    message.self_link = f"https://container.googleapis.com/v1/{key}"
    message.id = stored["id"]
    message.location = message.zone = location
    message.locations = stored["zones"]
    message.status = container_v1.Cluster.Status[stored["status"]]
    message.status_message = stored["message"]
    message.conditions = _conditions(stored["conditions"])
    message.label_fingerprint = stored["fingerprint"]
    message.etag = mark_of(stored)
    message.maintenance_policy.resource_version = version_of_policy(stored["spec"])
    message.create_time = _text(stored["created"])
    message.current_master_version = _version(message.initial_cluster_version)
    message.current_node_count = sum(pool["nodes"] for pool in stored["pools"].values())
    if stored["status"] not in ("PROVISIONING", "ERROR"):
        behind = stored.get("kubernetes", {})
        message.endpoint = behind.get("url", "").removeprefix("https://") or stored["endpoint"]
        authority = behind["authority"].encode() if behind else CERTIFICATE
        message.master_auth.cluster_ca_certificate = base64.b64encode(authority).decode()
        if world["settings"]["dns_endpoints"]:  # every cluster has one, whether it answers there or not
            dns = message.control_plane_endpoints_config.dns_endpoint_config
            dns.endpoint = f"gke-{stored['id'][:12]}.{location}.gke.goog"
    message.node_pools = [pool_message(world, key, name) for name in stored["pools"]]
    return message


def pool_message(world: World, key: str, name: str) -> container_v1.NodePool:
    """Returns a node pool as `GetNodePool` tells it."""
    cluster = world["clusters"][key]
    stored = cluster["pools"][name]
    message = _parsed(container_v1.NodePool, stored["spec"])
    message.self_link = f"https://container.googleapis.com/v1/{key}/nodePools/{name}"
    message.status = container_v1.NodePool.Status[stored["status"]]
    message.status_message = stored["message"]
    message.conditions = _conditions(stored["conditions"])
    message.version = _version(cluster["spec"].get("initial_cluster_version", ""))
    message.etag = mark_of(stored)
    if not message.locations:
        message.locations = cluster["zones"]
    if stored["status"] not in ("PROVISIONING", "ERROR"):
        message.instance_group_urls = [
            f"{_COMPUTE}/projects/{key.split('/')[1]}/zones/{zone}/instanceGroupManagers/{group_of(key, name)}"
            for zone in message.locations
        ]
    return message


def operation_message(world: World, name: str) -> container_v1.Operation:
    """Returns an operation as `GetOperation` tells it."""
    stored = world["operations"][name]
    link = f"https://container.googleapis.com/v1/{stored['cluster']}"
    message = container_v1.Operation(
        name=name.rsplit("/", 1)[1],
        operation_type=container_v1.Operation.Type[stored["type"]],
        status=container_v1.Operation.Status[stored["status"]],
        self_link=f"https://container.googleapis.com/v1/{name}",
        target_link=f"{link}/nodePools/{stored['pool']}" if stored["pool"] else link,
        location=name.split("/")[3],
        start_time=_text(stored["started"]),
        end_time=_text(stored["ended"]) if stored["ended"] else "",
    )
    if stored["status"] == "DONE" and stored["error"]:
        code, words = stored["error"]
        message.error = {"code": code, "message": words}
        message.status_message = words
        message.nodepool_conditions = _conditions(stored["conditions"])
    return message


def server_config() -> container_v1.ServerConfig:
    """Returns the versions that there are."""
    return container_v1.ServerConfig(
        default_cluster_version=CHANNELS[2][1],
        valid_master_versions=VERSIONS,
        valid_node_versions=VERSIONS,
        channels=[
            container_v1.ServerConfig.ReleaseChannelConfig(
                channel=channel, default_version=versions[1], valid_versions=versions
            )
            for channel, versions in CHANNELS.items()
        ],
    )


def _parsed(kind: Any, spec: dict[str, Any]) -> Any:
    return kind.wrap(json_format.ParseDict(spec, kind.pb(kind())))


def _conditions(stored: list[list[str]]) -> list[container_v1.StatusCondition]:
    return [
        container_v1.StatusCondition(code=container_v1.StatusCondition.Code[code], message=words)
        for code, words in stored
    ]


def _version(asked: str) -> str:
    return next((one for one in VERSIONS if asked and one.startswith(asked)), CHANNELS[2][1])


def _text(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
