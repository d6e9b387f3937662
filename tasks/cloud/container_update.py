"""Changes of a cluster of GKE and its node pools in place: one part at a time, each an operation that is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tasks.cloud.container import Container
from tasks.cloud.container_document import document
from tasks.cloud.container_errors import Busy, NotFound, Unavailable, error_of_operation
from tasks.cloud.container_transport import client, told

PARTS = (
    "release_channel",
    "logging_config",
    "monitoring_config",
    "workload_identity_config",
    "master_authorized_networks_config",
    "addons_config",
    "autoscaling",
    "control_plane_endpoints_config",
    "maintenance_policy",
)
"""Parts of a cluster that may be changed while it is there, named as in the API."""
_CALLED = {"autoscaling": "cluster_autoscaling"}
"""What updates call a part that clusters call otherwise."""

POOL_PARTS = ("autoscaling", "management", "config.labels")
"""Those of a node pool. What is done to its nodes meanwhile disturbs nobody."""

POOL_SIZE = "size"
"""How many nodes it has in each zone, which is no field of it."""

MACHINE_PARTS = ("config.machine_type", "config.disk_type", "config.disk_size_gb")
"""Those for which GKE makes the nodes of a pool anew, one after the other. No TPU slice has them changed."""


LIMIT_S = 3600.0
"""How long a change, and another's operation before it, are waited for."""


Edit = Callable[[Mapping[str, Any]], Any]
"""Returns what a part becomes, of the cluster or node pool as it is now."""


def change(container: Container, location: str, name: str, part: str, edit: Edit) -> None:
    """Gives a cluster another value of one of its parts, and waits until it has it. Asking twice changes nothing.

    Another's operation on the cluster is waited for, as long as the own one; where it was changed since it was read it
    is read again. Raises ContainerError.
    """
    full = f"projects/{container.project}/locations/{location}/clusters/{name}"
    doing = f"change {part} of cluster {name}"

    def ask(**more: Any) -> Any:
        now = _now(container, location, name, doing)
        value = edit(now)
        if part == "maintenance_policy":
            version = (now.get("maintenance_policy") or {}).get("resource_version", "")
            return client().set_maintenance_policy(
                _of_maintenance(full, {**value, "resource_version": version}), **more
            )
        update = {f"desired_{_CALLED.get(part, part)}": value, "etag": now.get("etag", "")}
        return client().update_cluster({"name": full, "update": update}, **more)

    _carried_out(container, location, doing, ask)


def _of_maintenance(full: str, policy: Any) -> dict[str, Any]:
    """Returns the request for another maintenance policy; `full` is the cluster's whole name."""
    _, project, _, zone, _, cluster = full.split("/")
    # The API still wants these, beside the name.
    old = {"project_id": project, "zone": zone, "cluster_id": cluster}
    return {"name": full, **old, "maintenance_policy": policy}


def change_pool(
    container: Container,
    location: str,
    cluster: str,
    name: str,
    part: str,
    edit: Edit,
) -> None:
    """Gives a node pool another value of one of POOL_PARTS or MACHINE_PARTS, or POOL_SIZE, as `change` does."""
    full = f"projects/{container.project}/locations/{location}/clusters/{cluster}/nodePools/{name}"
    doing, field = f"change {part} of node pool {name}", part.rpartition(".")[2]

    def ask(**more: Any) -> Any:
        pools = _now(container, location, cluster, doing).get("node_pools", ())
        now = next((one for one in pools if one["name"] == name), None)
        if now is None:
            raise NotFound(f"cannot {doing}: it is gone")
        value = edit(now)
        if part == POOL_SIZE:
            return client().set_node_pool_size({"name": full, "node_count": value}, **more)
        request = {"name": full, field: {"labels": value} if field == "labels" else value}
        if part == "autoscaling":
            return client().set_node_pool_autoscaling(request, **more)
        if part == "management":
            return client().set_node_pool_management(request, **more)
        return client().update_node_pool({**request, "etag": now.get("etag", "")}, **more)

    _carried_out(container, location, doing, ask)


def _now(container: Container, location: str, name: str, doing: str) -> Mapping[str, Any]:
    now = document(container.project, location, name, container.timing)
    if now is None:
        raise NotFound(f"cannot {doing}: it is gone")
    return now


def _carried_out(container: Container, location: str, doing: str, ask: Callable[..., Any]) -> None:
    timing, until, operation = container.timing, time.monotonic() + LIMIT_S, ""
    while not operation:
        try:
            with told(doing, timing.try_s):
                operation = ask(retry=None, timeout=timing.try_s).name
        except (Busy, Unavailable):
            if time.monotonic() >= until:
                raise
            time.sleep(timing.first_pause_s)
    while not (seen := container.operation(location, operation)).done:
        if time.monotonic() >= until:
            raise Unavailable(f"cannot {doing}: it takes more than {LIMIT_S:.0f} s")
        time.sleep(timing.first_pause_s)
    if seen.code or seen.error:
        raise error_of_operation(seen.code, seen.error, doing)
