"""How many nodes pools of ours have now, which Compute Engine knows: GKE tells with how many they began."""

from __future__ import annotations

from dataclasses import replace

from tasks.cloud.compute import Compute
from tasks.cloud.container_errors import Disabled, PermissionDenied
from tasks.cloud.container_model import Cluster, Pool
from tasks.cloud.labels import read_labels
from tasks.cloud.timing import Timing

_TPUS = ("ct", "tpu")
"""How types of machines with TPUs begin."""


def as_now(there: Cluster, timing: Timing, *, sure: bool = False) -> Cluster:
    """Returns a cluster, of which pools that people may have resized since they were made have the size of now.

    Those are pools of GPU and CPU machines that slicebench made: a TPU slice has its hosts, whatever is there of them,
    and what grows by itself has no size. Who may not look at them gets the size they began with; with `sure`
    PermissionDenied is raised. Raises ContainerError.
    """
    try:
        pools = tuple(pool_as_now(pool, timing) for pool in there.pools)
    except (Disabled, PermissionDenied):
        if sure:
            raise
        return there
    return replace(there, pools=pools)


def pool_as_now(pool: Pool, timing: Timing) -> Pool:
    """Returns a pool of ours with the size of now: of several zones, that of the one with the fewest."""
    ours = read_labels(pool.labels) is not None and not pool.machine_type.startswith(_TPUS)
    if pool.autoscaled or not (ours and pool.groups) or Compute.is_left_out():
        return pool
    compute = Compute(pool.project, timing=timing)
    return replace(pool, size=min(compute.target_size(group) for group in pool.groups))
