"""What the machines of a cluster have, by their kind: chips of each, processors and memory for pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.contract.errors import BadInput
from tasks.cloud.container_model import Cluster, Pool
from tasks.cloud.kubernetes_kinds import Object
from tasks.config.accelerators import MACHINE_LABEL, Accelerator, accelerator
from tasks.config.cluster import ClusterConfig
from tasks.targets.cluster_requests import CPU_POOL
from tasks.targets.cluster_size import machines_at_most
from tasks.targets.kube_amount import amount
from tasks.targets.kube_objects import metadata, status

_TPUS = ("ct", "tpu")
"""How the names of TPU machine types begin."""


@dataclass(frozen=True)
class Held:
    """Machines of one kind that a cluster has, or may come to have."""

    shape: Accelerator
    machines: int
    any_topology: bool = False
    """The service chooses the topology when machines are asked for."""
    common: bool = False
    """Of the pool that is there for whatever needs no chips."""


@dataclass(frozen=True)
class Each:
    """What one machine of a type has for pods: whole processors, and bytes of memory."""

    cpus: int
    memory: int


Room = Mapping[str, Each]
"""By machine type. Of types that have no node yet nobody knows."""


def held_in(cluster: Cluster, config: ClusterConfig | None = None) -> tuple[Held, ...]:
    """Returns the machines of a cluster's node pools, whoever made them: only pools that work count.

    `config` says what GKE may add by itself.
    """
    found: dict[tuple[str, str, str], Held] = {}
    for pool in cluster.pools:
        shape = _shape(pool)
        if shape is None or pool.state not in ("RUNNING", "RECONCILING"):
            continue
        key = (shape.label, shape.topology, shape.machine_type)
        before = found.get(key, Held(shape, 0))
        common = before.common or pool.name == CPU_POOL
        found[key] = Held(shape, before.machines + pool.machines, common=common)
    added = []
    if config is not None and config.autoprovision and config.shape is not None:
        added = [Held(config.shape, machines_at_most(config), any_topology=config.shape.kind == "tpu")]
    return (*found.values(), *added)


def _shape(pool: Pool) -> Accelerator | None:
    """Returns what a node pool's machines are; None: TPUs that we do not know."""
    if pool.accelerator:
        return Accelerator(
            pool.accelerator, "gpu", pool.accelerator, pool.machine_type, pool.accelerator, "", 1,
            pool.accelerators, pool.accelerators,
        )  # fmt: skip
    if not pool.machine_type.startswith(_TPUS):
        kind = pool.machine_type
        return Accelerator(kind, "cpu", kind.partition("-")[0], kind, "", "", 1, 0, 0)
    try:
        return accelerator(pool.machine_type, pool.topology or None)
    except BadInput:
        return None


def room_of(nodes: Iterable[Object]) -> Room:
    """Returns what one machine of each type has for pods: of several nodes the least, for that holds for each."""
    found: dict[str, Each] = {}
    for node in nodes:
        kind = (metadata(node).get("labels") or {}).get(MACHINE_LABEL, "")
        has = status(node).get("allocatable") or {}
        one = Each(int(amount(has.get("cpu", 0))), int(amount(has.get("memory", 0))))
        if one.cpus and one.memory:
            least = found.get(kind, one)
            found[kind] = Each(min(one.cpus, least.cpus), min(one.memory, least.memory))
    return found
