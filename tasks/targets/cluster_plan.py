"""What has to be done to a cluster so that it is as wanted: pure, from what is there and the config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from runtime.contract.counting import counted
from tasks.cloud.container_model import Cluster, Pool
from tasks.config.accelerators import Accelerator
from tasks.config.cluster import ClusterConfig
from tasks.targets.cluster_placing import needs_policy
from tasks.targets.cluster_requests import CPU_POOL, pool_name

Do = Literal[
    "make cluster",
    "replace cluster",
    "label cluster",
    "make policy",
    "make pool",
    "replace pool",
    "resize pool",
    "remove pool",
    "wait for",
]


@dataclass(frozen=True)
class Step:
    """One thing to do. `name` is the cluster's or pool's. `disturbs`: something that works is taken away."""

    do: Do
    name: str
    why: str = ""
    disturbs: bool = False

    def __str__(self) -> str:
        return f"{self.do} {self.name}" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True)
class ClusterPlan:
    """What is done to a cluster, in this order, and which node pools stay as they are."""

    steps: Sequence[Step]
    kept: Sequence[str]
    before: int
    after: int
    unit: str
    capacity: str = ""
    """How accelerators that are made are paid for."""

    @property
    def disturbs(self) -> bool:
        """Whether something that works is taken away: then somebody has to agree."""
        return any(step.disturbs for step in self.steps)

    def __str__(self) -> str:
        if not self.steps:
            return f"nothing to do: {counted(self.after, self.unit)} there"
        changed = f"{counted(self.before, self.unit)} → {self.after}"
        changed += f", {self.capacity}" if self.capacity and self.after else ""
        return "\n".join((changed, *(f"  {step}" for step in self.steps)))


def plan(
    name: str,
    config: ClusterConfig,
    there: Cluster | None,
    mine: Callable[[Pool], bool],
    busy: Mapping[str, bool] | None = None,
    *,
    ours: bool = True,
) -> ClusterPlan:
    """Returns the steps from what is there to what is wanted.

    `mine` says which pools are slices of the cluster's lease: others are left alone. `busy` says, as far as that is
    known, on which pools something runs: those without are given up first. `ours`: the cluster is of that lease.
    """
    planned = _plan(name, config, there, mine, busy, ours)
    return replace(planned, capacity=config.capacity if config.type else "")


def labelling(planned: ClusterPlan, there: Cluster) -> ClusterPlan:
    """Returns the same with the labels of the cluster written again first, unless that is made anew."""
    if any(step.do == "replace cluster" for step in planned.steps):
        return planned
    label = Step("label cluster", there.name, "somebody took its labels away")
    return replace(planned, steps=(label, *planned.steps))


def _plan(
    name: str,
    config: ClusterConfig,
    there: Cluster | None,
    mine: Callable[[Pool], bool],
    busy: Mapping[str, bool] | None,
    ours: bool,
) -> ClusterPlan:
    unit = "machine" if config.counts_nodes or config.type is None else "slice"
    shape = config.shape
    wanted = config.machines if config.counts_nodes else config.slices if shape else 0
    if there is None or (ours and there.state == "ERROR"):
        first = Step("make cluster", name)
        if there is not None:
            first = Step("replace cluster", name, _why(there), disturbs=True)
        count = 1 if config.counts_nodes and wanted else wanted if shape else 0
        makes = [Step("make pool", pool_name(index, config.pool_prefix)) for index in range(count)]
        return ClusterPlan((*_policy_steps(config, makes), first, *makes), (), 0, wanted, unit)
    steps = _cpu_steps(there, mine, ours)
    if there.state == "PROVISIONING":
        steps.insert(0, Step("wait for", name, "it is being made"))
    pools = [
        pool for pool in there.pools if mine(pool) and pool.name != CPU_POOL and pool.state != "STOPPING"
    ]
    if config.counts_nodes and shape is not None:
        return _one_pool(config, shape, pools, steps, wanted, unit)
    others = frozenset(pool.name for pool in there.pools if not mine(pool))
    return _slices(config, shape, pools, steps, wanted, unit, busy or {}, others)


def _policy_steps(config: ClusterConfig, makes: Sequence[Step]) -> list[Step]:
    if not makes or not needs_policy(config) or config.shape is None:
        return []
    return [Step("make policy", config.shape.topology, f"hosts of {config.type} are placed by one")]


def _cpu_steps(there: Cluster, mine: Callable[[Pool], bool], ours: bool) -> list[Step]:
    """Returns what the CPU machines need: they are made with the cluster, and again when they went bad."""
    pool = there.pool(CPU_POOL)
    if not ours:
        return []
    if pool is None:
        return [Step("make pool", CPU_POOL, "it is missing")]
    if mine(pool) and pool.state in ("ERROR", "RUNNING_WITH_ERROR"):
        return [Step("replace pool", CPU_POOL, _why(pool), disturbs=pool.state != "ERROR")]
    return []


def _slices(
    config: ClusterConfig,
    shape: Accelerator | None,
    pools: Sequence[Pool],
    steps: list[Step],
    wanted: int,
    unit: str,
    busy: Mapping[str, bool],
    others: frozenset[str],
) -> ClusterPlan:
    good = [pool for pool in pools if not wrong_with(pool, config, shape)]
    bad = [pool for pool in pools if pool not in good]
    # What works is kept, that with something running on it first; then what can be replaced in its place.
    order = sorted(good, key=lambda pool: (not busy.get(pool.name, False), _index(pool.name)))
    keep, surplus = order[:wanted], order[wanted:]
    bad = sorted(bad, key=lambda pool: _index(pool.name))
    replace, give_up = bad[: wanted - len(keep)], bad[wanted - len(keep) :] if wanted > len(keep) else bad
    for pool in (*give_up, *surplus):
        known = "" if pool.name not in busy else ", in use" if busy[pool.name] else ", idle"
        why = wrong_with(pool, config, shape) or f"one slice too many{known}"
        steps.append(Step("remove pool", pool.name, why, disturbs=_works(pool)))
    for pool in replace:
        steps.append(Step("replace pool", pool.name, wrong_with(pool, config, shape), disturbs=_works(pool)))
    if not keep:
        steps += _policy_steps(config, [Step("make pool", pool_name(0, config.pool_prefix))] * wanted)
    steps += [
        Step("wait for", pool.name, "it is being made") for pool in keep if pool.state == "PROVISIONING"
    ]
    taken = {pool.name for pool in (*keep, *replace)} | others
    names = (pool_name(index, config.pool_prefix) for index in range(10_000))
    free = (name for name in names if name not in taken)
    for _ in range(wanted - len(keep) - len(replace)):
        steps.append(Step("make pool", next(free)))
    kept = sorted((pool.name for pool in keep), key=_index)
    return ClusterPlan(tuple(steps), tuple(kept), sum(map(_works, pools)), wanted, unit)


def _one_pool(
    config: ClusterConfig,
    shape: Accelerator,
    pools: Sequence[Pool],
    steps: list[Step],
    wanted: int,
    unit: str,
) -> ClusterPlan:
    """Plans GPU or CPU machines: they are one pool, which has a size."""
    name = pool_name(0, config.pool_prefix)
    pool = next((one for one in pools if one.name == name), None)
    if pool is None:
        made = [Step("make pool", name, counted(wanted, unit))] if wanted else []
        return ClusterPlan((*steps, *made), (), 0, wanted, unit)
    size = pool.most if pool.autoscaled else pool.size
    wrong = wrong_with(pool, config, shape)
    if not wanted:
        steps.append(Step("remove pool", name, "no machines are wanted", disturbs=_works(pool)))
    elif wrong or (pool.autoscaled and size != wanted):
        steps.append(Step("replace pool", name, wrong or f"at most {size} → {wanted}", disturbs=_works(pool)))
    elif pool.state == "PROVISIONING":
        steps.append(Step("wait for", name, "it is being made"))
    elif size != wanted:
        steps.append(Step("resize pool", name, f"{size} → {wanted}", disturbs=wanted < size))
    kept = () if wrong or not wanted else (name,)
    return ClusterPlan(tuple(steps), kept, size if _works(pool) else 0, wanted, unit)


def wrong_with(pool: Pool, config: ClusterConfig, shape: Accelerator | None) -> str:
    """Returns why a node pool is none that is wanted; empty: it is one. One in ERROR is not a node pool."""
    if pool.state in ("ERROR", "RUNNING_WITH_ERROR"):
        return f"{pool.state}: {pool.why}" if pool.why else pool.state
    if shape is None:
        return "no accelerators are wanted"
    topology = shape.topology if shape.kind == "tpu" and shape.hosts > 1 else ""
    for there, wanted in ((pool.machine_type, shape.machine_type), (pool.topology, topology)):
        if there != wanted:
            return f"it is of {there or 'no topology'}, not {wanted or 'of none'}"
    if pool.capacity != config.capacity:
        return f"it is {pool.capacity}, not {config.capacity}"
    if config.reservations and pool.reservation not in config.reservations:
        return f"it uses the reservation {pool.reservation}"
    grows = config.autoscaling or config.capacity == "flex_start"
    if shape.kind == "tpu" and pool.autoscaled != grows:
        return "it has a fixed size" if grows else "its size changes by itself"
    if config.joins_gpus and not pool.network_profile:
        return "its GPUs have no networks to those of other hosts"
    return ""


def _works(pool: Pool) -> bool:
    return pool.state != "ERROR"


def _why(there: Cluster | Pool) -> str:
    return f"{there.state}: {there.why}" if there.why else there.state


def _index(name: str) -> int:
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else 10_000
