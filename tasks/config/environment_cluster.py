"""The cluster of an environment as `slicebench cluster create` would have it: made and changed in one way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tasks.config.cluster import ClusterConfig
from tasks.config.environment import EnvironmentConfig, Path
from tasks.config.wording import wanted, written

GROUP_LABEL = "multislice-group"
"""Label of the nodes of all TPU pools."""

_COMPONENTS = {
    "logging": ["SYSTEM_COMPONENTS", "WORKLOADS"],
    "monitoring": ["SYSTEM_COMPONENTS", "JOBSET"],
}
_PLACES: Mapping[str, Path] = {
    "type": ("tpu", "machine_type"),
    "topology": ("tpu", "topology"),
    "slices": ("tpu_pools",),
    "capacity": ("tpu", "capacity"),
    "reservations": ("tpu", "reservations"),
    "max_run": ("tpu", "max_run"),
    "autoscaling": ("tpu", "autoscaling"),
    "pool_fields": ("tpu", "fields"),
    "cluster_fields": ("cluster", "fields"),
    "zone": ("zone",),
    "cpu_pool": ("cpu_pool",),
    "machines": ("tpu_pools",),
}
_SAME = ("version", "maintenance", "private", "private_endpoint", "authorized_networks", "image_streaming")


class NoCluster(ValueError):
    """The cluster cannot be; `wrong` says where in the environment's file that stands, and what."""

    def __init__(self, wrong: list[tuple[Path, str]]) -> None:
        super().__init__("; ".join(told for _, told in wrong))
        self.wrong = wrong


def cluster_of(config: EnvironmentConfig, project: str = "project") -> ClusterConfig:
    """Returns the cluster, its CPU machines and its TPU pools. Raises NoCluster."""
    cluster, tpu, network = config.cluster, config.tpu, config.network
    host = network.host_project
    made: dict[str, Any] = {
        "zone": config.zone,
        "type": tpu.machine_type,
        "topology": config.shape.topology,
        "slices": config.tpu_pools,
        "capacity": tpu.capacity,
        "reservations": tpu.reservations,
        "max_run": tpu.max_run,
        "autoscaling": tpu.autoscaling,
        "pool_prefix": tpu.pool_prefix,
        "regional": cluster.regional,
        "channel": cluster.channel,
        "network": f"projects/{host}/global/networks/{network.name}" if host else network.name,
        "subnetwork": (
            f"projects/{host}/regions/{config.region}/subnetworks/{network.subnet}"
            if host
            else network.subnet
        ),
        "pods_range": network.pods_range_name,
        "services_range": network.services_range_name,
        "workload_identity": True,
        "service_account": f"{config.accounts.nodes.name}@{project}.iam.gserviceaccount.com",
        "cpu_pool": config.cpu_pool.model_dump(exclude_none=True),
        "cluster_fields": {**_fields(config), **cluster.fields},
        "pool_fields": {f"config.labels.{GROUP_LABEL}": tpu.multislice_group, **tpu.fields},
        "queueing": config.queueing.model_dump(exclude_none=True),
        **{name: getattr(cluster, name) for name in _SAME},
    }
    try:
        return ClusterConfig.model_validate(made)
    except ValidationError as error:
        raise NoCluster([_wrong(detail) for detail in error.errors()]) from None


def _fields(config: EnvironmentConfig) -> dict[str, Any]:
    fields: dict[str, Any] = {"description": config.cluster.description}
    for what, components in _COMPONENTS.items():
        on = components if getattr(config.cluster, what) else []
        fields[f"{what}_config.component_config.enable_components"] = on
    return fields


def _wrong(detail: Mapping[str, Any]) -> tuple[Path, str]:
    """Returns one of pydantic's findings on the cluster as one of the environment's file."""
    at = [part for part in detail["loc"] if isinstance(part, str)]
    told = str(detail.get("ctx", {}).get("error", ""))
    words = [*at, *re.findall(r"\b[a-z_]+\b", told)]
    path = next(
        (_PLACES.get(word) or ("cluster", word) for word in words if word in _PLACES or word in _SAME), ()
    )
    if told:
        return path, told
    name = at[-1] if at else "cluster"
    return path, f"{name} must be {wanted(detail)}, not {written(detail['input'])}"
