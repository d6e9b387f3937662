"""What GKE's accelerator types are made of: TPUs, GPUs and CPUs, by machine, topology, hosts and node labels.

Sources: GKE's documentation of TPU topologies and GPU machine types, and xpk 1.16's names for them, 2026. A name is
one slice: `v5p-128` (v4, v5p and tpu7x count TensorCores, two a chip; v5e and v6e chips), `v5p-4x4x4` (its topology),
a TPU machine type (`ct5lp-hightpu-8t`, one host), `h100-80gb-8` (one host), `n2-standard-32-2` (two hosts), or, on any
cluster, `cpu` and `gpu-N`: hosts without a selector.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput
from runtime.contract.nearest import nearest
from tasks.config.tpu_families import FAMILIES, Family, chips_of, plain_names, single_hosts, topologies

Kind = Literal["tpu", "gpu", "cpu"]
Capacity = Literal["spot", "on_demand", "reservation", "flex_start"]
Placement = Literal["none", "compact", "workload_policy"]
GpuDirect = Literal["tcpx", "tcpxo", "rdma"]

TPU_LABEL, TOPOLOGY_LABEL = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
GPU_LABEL, MACHINE_LABEL = "cloud.google.com/gke-accelerator", "node.kubernetes.io/instance-type"

_ALWAYS: frozenset[Capacity] = frozenset({"spot", "on_demand", "reservation"})
_RESOURCE = {"tpu": "google.com/tpu", "gpu": "nvidia.com/gpu", "cpu": "cpu"}


@dataclass(frozen=True)
class Accelerator:
    """One slice: `hosts` machines with `chips_per_host` TPU chips, GPUs or virtual CPUs each.

    `label` is what GKE labels nodes with, "" where any node will do. `devices_per_host` is as JAX counts them; 0: it
    is chosen (CPU). `capacities` are the ways in which GKE gives it. `placement` is what its node pool needs to be
    one slice. `pathways` is its name there, "" when Pathways does not know it.
    """

    name: str
    kind: Kind
    family: str
    machine_type: str
    label: str
    topology: str
    hosts: int
    chips_per_host: int
    devices_per_host: int
    capacities: frozenset[Capacity] = _ALWAYS
    placement: Placement = "none"
    pathways: str = ""
    gpu_direct: GpuDirect | None = None
    arm: bool = False

    @property
    def chips(self) -> int:
        """Chips, GPUs or virtual CPUs of the whole slice."""
        return self.hosts * self.chips_per_host

    @property
    def resource(self) -> str:
        """The name under which Kubernetes counts what a pod takes of a host."""
        return _RESOURCE[self.kind]

    @property
    def node_selector(self) -> Mapping[str, str]:
        """The labels of nodes that are part of such a slice."""
        if self.kind == "tpu":
            return {TPU_LABEL: self.label, TOPOLOGY_LABEL: self.topology}
        if self.kind == "gpu":
            return {GPU_LABEL: self.label} if self.label else {}
        return {MACHINE_LABEL: self.machine_type} if self.machine_type else {}

    @property
    def may_share_hosts(self) -> bool:
        """Whether one node of the label may have room for several of its hosts: two of l4-1 are one g2-standard-24."""
        return self.kind == "gpu" and self.chips_per_host < _most_gpus(self.label)

    @property
    def tolerations(self) -> list[dict[str, str]]:
        """What pods must tolerate of the taints that such nodes have."""
        taints = [{"key": self.resource, "operator": "Exists"}] if self.kind != "cpu" else []
        if self.gpu_direct is not None:  # what GKE's own recipes for such node pools set
            taints.append(
                {"key": "user-workload", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
            )
        if self.arm:
            taints.append({"key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64"})
        return taints

    def __str__(self) -> str:
        hosts = f"{counted(self.hosts, 'host')} of {self.machine_type or 'any kind'}"
        return f"{self.name} ({counted(self.chips, self.unit)} on {hosts})" if self.machine_type else hosts

    @property
    def unit(self) -> str:
        """What `chips` counts, in one word."""
        return {"tpu": "chip", "gpu": "GPU", "cpu": "vCPU"}[self.kind]


_Gpu = tuple[str, str, int, GpuDirect | None]  # machine type, label, GPUs on it, how its networks are used
_GPUS: Mapping[str, _Gpu] = {
    **{f"l4-{n}": (f"g2-standard-{12 * n}", "nvidia-l4", n, None) for n in (1, 2, 4, 8)},
    **{f"a100-40gb-{n}": (f"a2-highgpu-{n}g", "nvidia-tesla-a100", n, None) for n in (1, 2, 4, 8)},
    "h100-80gb-8": ("a3-highgpu-8g", "nvidia-h100-80gb", 8, "tcpx"),
    "h100-mega-80gb-8": ("a3-megagpu-8g", "nvidia-h100-mega-80gb", 8, "tcpxo"),
    "h200-141gb-8": ("a3-ultragpu-8g", "nvidia-h200-141gb", 8, "rdma"),
    "b200-8": ("a4-highgpu-8g", "nvidia-b200", 8, "rdma"),
    "gb200-4": ("a4x-highgpu-4g", "nvidia-gb200", 4, "rdma"),
    "gb200-4-nolssd": ("a4x-highgpu-4g-nolssd", "nvidia-gb200", 4, "rdma"),
}
_NVLINK = {"gb200-4": "1x72", "gb200-4-nolssd": "1x72"}
_ANY_GPU = r"gpu-(\d+)"

_CPUS: Mapping[str, tuple[int, ...]] = {
    "n1-standard": (1, 2, 4, 8, 16, 32, 64, 96),
    "n2-standard": (2, 4, 8, 16, 32, 48, 64, 80, 96, 128),
    "e2-standard": (2, 4, 8, 16, 32),
    "m1-megamem": (96,),
}
_CPU_NAME = r"(?P<machine>(?P<series>[a-z]\w*-[a-z]+)-(?P<cpus>\d+))-(?P<hosts>\d+)"
_MOST_HOSTS = 2048


@cache
def accelerator(name: str, topology: str | None = None, nodes: int | None = None) -> Accelerator:
    """Returns what a type is made of. `topology` chooses among shapes of one size; `nodes` are hosts of a GPU or `cpu`.

    Raises BadInput, with the nearest names or the topologies that fit.
    """
    found = _tpu(name, topology) or _gpu(name, nodes or 1) or _cpu(name, nodes or 1)
    if found is None:
        raise BadInput(f"{name!r} is no accelerator type of GKE", fix=_meant(name))
    if topology is not None and found.kind != "tpu":
        raise BadInput(f"{name} has no topology to choose", fix="leave topology: out")
    if nodes is not None and (found.kind == "tpu" or (found.kind == "cpu" and found.machine_type)):
        raise BadInput(
            f"nodes: {nodes} does not go with {name}, which is {counted(found.hosts, 'host')}",
            fix="leave nodes: out, or name another type",
        )
    return found


def tpu_machines() -> list[str]:
    """Returns the machine types of all TPUs."""
    sizes = ((family, key) for family in FAMILIES for key in single_hosts(family))
    return [family.machine.format(key.removesuffix("t")) for family, key in sizes]


def known_names() -> Iterator[str]:
    """Yields the plain names: no topologies, and CPU machines one at a time."""
    for family in FAMILIES:
        yield from (f"{family.prefix}-{size}" for size in plain_names(family))
        yield from (family.machine.format(kind.rstrip("t")) for kind in single_hosts(family))
    yield from _GPUS
    yield from (f"{series}-{cpus}-1" for series, sizes in _CPUS.items() for cpus in sizes)
    yield from ("cpu", "gpu-1")


def _tpu(name: str, topology: str | None) -> Accelerator | None:
    for family in FAMILIES:
        machine = re.fullmatch(family.machine.format(r"([148])"), name)
        if machine:
            return _of_machine(family, name, int(machine[1]), topology)
        prefix, _, rest = name.rpartition("-")
        if prefix != family.prefix:
            continue
        if rest.isdecimal():
            meant = _of_size(family, name, int(rest), topology)
        else:
            meant = rest if rest in topologies(family) else None
        if meant is None:
            return None
        if topology is not None and meant != topology:
            raise BadInput(f"topology {topology} does not fit {name}", fix=f"{name} is {meant}")
        return _slice(family, name, meant)
    return None


def _of_size(family: Family, name: str, size: int, topology: str | None) -> str | None:
    """Returns the topology of a plain name: the one that is asked for where it has that size, else its usual one."""
    usual = plain_names(family).get(size)
    if usual is None or topology is None or topology == usual:
        return usual
    same = [each for each in topologies(family) if chips_of(each) == chips_of(usual)]
    if topology not in same:
        chips = counted(chips_of(usual), "chip")
        raise BadInput(f"topology {topology} does not fit {name}, which is {chips}", fix=f"write {_or(same)}")
    return topology


def _of_machine(family: Family, name: str, chips: int, topology: str | None) -> Accelerator | None:
    """Returns a slice of hosts of a machine type: a single one where no topology says more."""
    usual = single_hosts(family).get(f"{chips}t")
    if usual is None:
        return None
    wanted = topology or usual
    fitting = [usual] if chips != 4 else [each for each in topologies(family) if chips_of(each) > 1]
    if wanted not in fitting:
        raise BadInput(f"topology {wanted} does not fit {name}", fix=f"write {_or(fitting)}")
    return _slice(family, name, wanted, chips)


def _slice(family: Family, name: str, topology: str, per_host: int = 0) -> Accelerator:
    chips = chips_of(topology)
    per_host = per_host or (1 if chips == 1 else 4)
    hosts = chips // per_host
    several: Placement = "workload_policy" if family.workload_policy else "compact"
    return Accelerator(
        name=name,
        kind="tpu",
        family=family.name,
        machine_type=family.machine.format(per_host),
        label=family.label,
        topology=topology,
        hosts=hosts,
        chips_per_host=per_host,
        devices_per_host=per_host * family.devices_per_chip,
        capacities=_ALWAYS | {"flex_start"} if family.flex else _ALWAYS,
        placement=several if hosts > 1 else "none",
        # Pathways tells hosts with eight chips from those with four by its name for them.
        pathways=f"{family.pathways}{'1t' if per_host == 8 else ''}",
    )


def _gpu(name: str, nodes: int) -> Accelerator | None:
    if name in _GPUS:
        machine, label, count, direct = _GPUS[name]
        return Accelerator(
            name, "gpu", name.rpartition("-")[0], machine, label, _NVLINK.get(name, ""), nodes, count, count,
            capacities=_ALWAYS | {"flex_start"}, gpu_direct=direct, arm=name.startswith("gb200"),
        )  # fmt: skip
    if (match := re.fullmatch(_ANY_GPU, name)) and 1 <= int(match[1]) <= 16:
        count = int(match[1])
        return Accelerator(name, "gpu", "gpu", "", "", "", nodes, count, count)
    return None


def _cpu(name: str, nodes: int) -> Accelerator | None:
    if name == "cpu":
        return Accelerator(name, "cpu", "cpu", "", "", "", nodes, 1, 0)
    match = re.fullmatch(_CPU_NAME, name)
    if match is None or int(match["cpus"]) not in _CPUS.get(match["series"], ()):
        return None
    hosts = int(match["hosts"])
    if not 1 <= hosts <= _MOST_HOSTS:
        raise BadInput(f"{name}: {hosts} hosts", fix=f"take from 1 to {_MOST_HOSTS}")
    return Accelerator(name, "cpu", match["series"], match["machine"], "", "", hosts, int(match["cpus"]), 0)


@cache
def _most_gpus(label: str) -> int:
    """Returns how many GPUs the largest machine has whose nodes have this label; 0: it is none of GKE's."""
    return max((count for _, of, count, _ in _GPUS.values() if of == label), default=0)


def _or(words: list[str]) -> str:
    shown = words[:6]
    return " or ".join((", ".join(shown[:-1]), shown[-1])) if len(shown) > 1 else shown[0]


def _meant(name: str) -> str:
    """Says which types were probably meant: the right prefix, with the sizes around the one written."""
    lower = name.lower()
    prefix, _, rest = lower.rpartition("-")
    for family in FAMILIES:
        if prefix not in (family.prefix, *family.also):
            continue
        if rest in topologies(family) or (rest.isdecimal() and int(rest) in plain_names(family)):
            return f"did you mean {family.prefix}-{rest}?"
        if sorted_rest := _sorted(rest, family):
            return f"did you mean {family.prefix}-{sorted_rest}?"
        if rest.isdecimal():
            near = sorted(plain_names(family), key=lambda one: abs(one - int(rest)))[:3]
            unit = "TensorCores, two a chip" if family.cores_per_chip == 2 else "chips"
            names = _or([f"{family.prefix}-{one}" for one in sorted(near)])
            return f"did you mean {names}? ({family.name} counts {unit})"
    near_name = nearest(lower, known_names())
    prefixes = ", ".join(f"{family.prefix}-N" for family in FAMILIES)
    known = f"types are {prefixes}, {', '.join(_GPUS)}, n2-standard-32-1, cpu"
    return f"did you mean {near_name}?" if near_name else known


def _sorted(rest: str, family: Family) -> str | None:
    """Returns the topology with its sides in the family's order, when it is one then."""
    if not re.fullmatch(r"\d+(x\d+)+", rest):
        return None
    ordered = "x".join(sorted(rest.split("x"), key=int))
    return ordered if ordered in topologies(family) else None
