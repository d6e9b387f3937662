"""A cluster as it will be once what is planned is done: quotas are made for the machines of then. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.cloud.container_model import Cluster, Pool
from tasks.config.cluster import ClusterConfig
from tasks.targets.cluster_plan import Step
from tasks.targets.cluster_requests import CPU_POOL, cpu_pool_request, pool_request
from tasks.targets.cluster_size import keeps_room


def as_planned(there: Cluster, config: ClusterConfig, steps: Sequence[Step] = ()) -> Cluster:
    """Returns a cluster with the node pools that steps leave in it, and at most the CPU machines that are asked for."""
    return replace(there, pools=tuple(_pools(there, config, {one.name: one.do for one in steps})))


def _pools(there: Cluster, config: ClusterConfig, steps: Mapping[str, str]) -> Iterator[Pool]:
    for pool in there.pools:
        does = steps.get(pool.name, "")
        if does == "wait for":
            yield replace(pool, state="RUNNING")
        elif not does and pool.name == CPU_POOL and pool.autoscaled and not keeps_room(config, pool.most):
            yield replace(pool, most=_most(cpu_pool_request(config, {})) or pool.most)
        elif not does:
            yield pool
    for name, does in steps.items():
        if does in ("make pool", "replace pool"):
            yield _made(there, name, config)


def _made(there: Cluster, name: str, config: ClusterConfig) -> Pool:
    shape = config.shape
    if name == CPU_POOL or shape is None:
        request = cpu_pool_request(config, {})
    else:
        request = pool_request(name, config, shape, {})
    return Pool(
        there.project,
        there.location,
        there.name,
        name,
        uid="",
        state="RUNNING",
        machine_type=request["config"]["machine_type"],
        size=request.get("initial_node_count", 0),
        zones=tuple(request.get("locations", there.zones)),
        topology=request.get("placement_policy", {}).get("tpu_topology", ""),
        autoscaled=bool(request.get("autoscaling", {}).get("enabled")),
        most=_most(request),
    )


def _most(request: Mapping[str, Any]) -> int:
    scaling = request.get("autoscaling", {})
    return int(scaling.get("max_node_count") or scaling.get("total_max_node_count") or 0)
