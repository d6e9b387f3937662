"""Whether the node pools of a cluster are what a run needs: pure, from the pools and the type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.cloud.container_model import GOOD, Pool
from tasks.config.accelerators import Accelerator, Capacity
from tasks.config.cluster import ClusterConfig
from tasks.targets.cluster_requests import CPU_POOL


@dataclass(frozen=True)
class Need:
    """So many slices of a shape, or for GPUs and CPUs so many machines in all. `capacity` None: however they are paid.

    `shape` None, or one that names no machine type, is satisfied by any cluster: nobody can tell by its pools.
    """

    shape: Accelerator | None
    slices: int
    machines: int
    capacity: Capacity | None = None
    reservations: Sequence[str] = ()

    @classmethod
    def of(cls, config: ClusterConfig) -> Need:
        """Returns what a cluster that is made has."""
        return cls(config.shape, config.slices, config.machines, config.capacity, config.reservations)


@dataclass(frozen=True)
class Short:
    """How many slices (of GPUs and CPUs: machines) there are too few, and how to tell that after the cluster's name."""

    count: int
    told: str = ""


def short_of(pools: Sequence[Pool], need: Need) -> Short:
    """Returns what pools lack of a need. One in ERROR, half made or going is no node pool."""
    shape = need.shape
    if shape is None or not shape.machine_type:
        return Short(0)
    alike = [pool for pool in pools if pool.machine_type == shape.machine_type and pool.name != CPU_POOL]
    wrong = {pool.name: why for pool in alike if (why := unfit(pool, shape, need))}
    good = [pool for pool in alike if pool.name not in wrong]
    by_machine = shape.kind != "tpu"
    there = sum(pool.machines if by_machine or shape.hosts == 1 else 1 for pool in good)
    wanted = need.machines if by_machine else need.slices
    if there >= wanted:
        return Short(0)
    name = shape.machine_type if by_machine else shape.name
    what = (
        f"has {there} of the {wanted} {'machines' if by_machine else 'node pools'} of {name} that are needed"
    )
    why = "; ".join(f"{pool}: {told}" for pool, told in wrong.items())
    return Short(wanted - there, what + (f" ({why})" if why else ""))


def unfit(pool: Pool, shape: Accelerator, need: Need) -> str:
    """Returns why a pool of the machine type is none that is needed; empty: it is one."""
    if pool.state not in GOOD:
        return f"{pool.state}: {pool.why}" if pool.why else pool.state
    topology = shape.topology if shape.kind == "tpu" and shape.hosts > 1 else ""
    if shape.kind == "tpu" and pool.topology != topology:
        return f"it is of {pool.topology or 'no topology'}, not {topology or 'without topology'}"
    if need.capacity is not None and pool.capacity != need.capacity:
        return f"it is {pool.capacity}, not {need.capacity}"
    if need.reservations and pool.reservation not in need.reservations:
        return f"it uses the reservation {pool.reservation}"
    return ""
