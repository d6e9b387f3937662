"""Whether a region's quota of CPUs has room for an environment's machines: asked before anything is made.

Quotas of TPUs are kept elsewhere, and are told by GKE when the pools are made.
"""

from __future__ import annotations

from tasks.cloud.compute import Compute
from tasks.cloud.container_errors import Disabled, PermissionDenied
from tasks.config.environment import EnvironmentConfig
from tasks.stages.environment_desk import Desk
from tasks.targets.cluster_find import find

_COMMON = ("n1", "e2", "f1", "g1", "m1")
"""Series of machines that share one quota; each other one has its own."""


def short_of_quota(desk: Desk, config: EnvironmentConfig) -> str:
    """Returns which quota is too small for the CPU machines; empty: none is, or nobody knows.

    Of a cluster that is there already, it has what it needs. Raises ContainerError where nobody answers.
    """
    pool, location = config.cpu_pool, config.region if config.cluster.regional else config.zone
    if Compute.is_left_out() or find(desk.container, config.cluster.name, location) is not None:
        return ""
    compute = Compute(desk.project, timing=desk.timing)
    try:
        machine = compute.machine_type(config.zone, pool.machine_type)
        left = compute.quotas(config.region)
    except (Disabled, PermissionDenied):
        return ""
    series = pool.machine_type.partition("-")[0]
    metric = "CPUS" if series in _COMMON else f"{series.upper()}_CPUS"
    needed = (machine.cpus if machine is not None else 0) * pool.nodes
    if metric not in left or needed <= left[metric]:
        return ""
    return (
        f"cpu_pool: {pool.nodes} machines of {pool.machine_type} have {needed} CPUs, and of the quota {metric} in "
        f"{config.region} {max(left[metric], 0):.0f} are left: ask for more, or take fewer or smaller ones"
    )
