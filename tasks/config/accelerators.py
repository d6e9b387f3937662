"""What GKE's accelerator types are made of: TPUs, GPUs and CPUs, by machine, topology, hosts and node labels.

Sources: GKE's documentation of TPU topologies and GPU machine types, and xpk 1.16's names for them, 2026. A name is
one slice: `v5p-128` (v4, v5p and tpu7x count TensorCores, two a chip; v5e and v6e chips), `v5p-4x4x4` (its topology),
a TPU machine type (`ct5lp-hightpu-8t`, one host), `h100-80gb-8` (one host), `n2-standard-32-2` (two hosts), or, on any
cluster, `cpu` and `gpu-N`: hosts without a selector.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput
from runtime.contract.nearest import nearest

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


@dataclass(frozen=True, eq=False)
class _Family:
    """A generation of TPUs. `machine` is of its hosts, {} their chips; `single` machines hold a whole slice.

    `flat` are all of its two-dimensional topologies; without them it is made of cubes of 64 chips, up to `cubes`, in
    `turned` families in any order. Where a size has several shapes, a plain name means the one nearest to a cube for
    `nearest_to_cube`, else the longest.
    """

    name: str
    prefix: str
    machine: str
    label: str
    cores_per_chip: int
    pathways: str
    flat: tuple[str, ...] = ()
    cubes: int = 0
    turned: bool = False
    nearest_to_cube: frozenset[int] = frozenset()
    single: Mapping[str, str] = field(default_factory=dict)
    one_chip: bool = False
    devices_per_chip: int = 1
    flex: bool = True
    workload_policy: bool = False
    also: tuple[str, ...] = ()


_FLAT = ("2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_SMALL = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")
_LONGEST_SIDE = 64
"""Cubes in a row, at most."""
_MOSTLY = frozenset(range(1, 98))

_FAMILIES = (
    _Family(
        "v4", "v4", "ct4p-hightpu-{}t", "tpu-v4-podslice", 2, "tpuv4", cubes=64, turned=True, flex=False,
        nearest_to_cube=frozenset({4, 8, 12, 16, 32}),
    ),
    _Family(
        "v5e", "v5litepod", "ct5lp-hightpu-{}t", "tpu-v5-lite-podslice", 1, "tpuv5e", flat=("1x1", "2x2", *_FLAT),
        single={"1t": "1x1", "4t": "2x2", "8t": "2x4"}, also=("v5e", "v5lite"),
    ),
    _Family(
        "v5p", "v5p", "ct5p-hightpu-{}t", "tpu-v5p-slice", 2, "tpuv5", cubes=140,
        nearest_to_cube=_MOSTLY | {108, 140}, also=("v5",),
    ),
    _Family(
        "v6e", "v6e", "ct6e-standard-{}t", "tpu-v6e-slice", 1, "tpuv6e", flat=("1x1", "2x2", *_FLAT),
        single={"1t": "1x1", "4t": "2x2", "8t": "2x4"}, also=("v6", "trillium"),
    ),
    _Family(
        "tpu7", "tpu7", "tpu7-standard-{}t", "tpu7", 2, "tpu7", cubes=4, nearest_to_cube=_MOSTLY, one_chip=True,
        devices_per_chip=2, workload_policy=True,
    ),
    _Family(
        "tpu7x", "tpu7x", "tpu7x-standard-{}t", "tpu7x", 2, "tpu7x", cubes=144, one_chip=True, devices_per_chip=2,
        nearest_to_cube=_MOSTLY | {108, 128, 140, 144}, workload_policy=True, also=("v7", "v7x", "ironwood"),
    ),
)  # fmt: skip

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
_ANY_GPU = re.compile(r"gpu-(\d+)")

_CPUS: Mapping[str, tuple[int, ...]] = {
    "n1-standard": (1, 2, 4, 8, 16, 32, 64, 96),
    "n2-standard": (2, 4, 8, 16, 32, 48, 64, 80, 96, 128),
    "e2-standard": (2, 4, 8, 16, 32),
    "m1-megamem": (96,),
}
_CPU_NAME = re.compile(r"(?P<machine>(?P<series>[a-z]\w*-[a-z]+)-(?P<cpus>\d+))-(?P<hosts>\d+)")
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


def known_names() -> Iterator[str]:
    """Yields the plain names: no topologies, and CPU machines one at a time."""
    for family in _FAMILIES:
        yield from (f"{family.prefix}-{size}" for size in _plain(family))
        yield from (family.machine.format(kind.rstrip("t")) for kind in _alone(family))
    yield from _GPUS
    yield from (f"{series}-{cpus}-1" for series, sizes in _CPUS.items() for cpus in sizes)
    yield from ("cpu", "gpu-1")


def _tpu(name: str, topology: str | None) -> Accelerator | None:
    for family in _FAMILIES:
        machine = re.fullmatch(family.machine.format(r"([148])"), name)
        if machine:
            return _of_machine(family, name, int(machine[1]), topology)
        prefix, _, rest = name.rpartition("-")
        if prefix != family.prefix:
            continue
        if rest.isdecimal():
            meant = _of_size(family, name, int(rest), topology)
        else:
            meant = rest if rest in _topologies(family) else None
        if meant is None:
            return None
        if topology is not None and meant != topology:
            raise BadInput(f"topology {topology} does not fit {name}", fix=f"{name} is {meant}")
        return _slice(family, name, meant)
    return None


def _of_size(family: _Family, name: str, size: int, topology: str | None) -> str | None:
    """Returns the topology of a plain name: the one that is asked for where it has that size, else its usual one."""
    usual = _plain(family).get(size)
    if usual is None or topology is None or topology == usual:
        return usual
    same = [each for each in _topologies(family) if _chips(each) == _chips(usual)]
    if topology not in same:
        chips = counted(_chips(usual), "chip")
        raise BadInput(f"topology {topology} does not fit {name}, which is {chips}", fix=f"write {_or(same)}")
    return topology


def _of_machine(family: _Family, name: str, chips: int, topology: str | None) -> Accelerator | None:
    """Returns a slice of hosts of a machine type: a single one where no topology says more."""
    usual = _alone(family).get(f"{chips}t")
    if usual is None:
        return None
    wanted = topology or usual
    fitting = [usual] if chips != 4 else [each for each in _topologies(family) if _chips(each) > 1]
    if wanted not in fitting:
        raise BadInput(f"topology {wanted} does not fit {name}", fix=f"write {_or(fitting)}")
    return _slice(family, name, wanted, chips)


def _alone(family: _Family) -> Mapping[str, str]:
    """Returns the topology that one host of each of a family's machines is."""
    return family.single or {"4t": "2x2x1", **({"1t": "1x1x1"} if family.one_chip else {})}


def _slice(family: _Family, name: str, topology: str, per_host: int = 0) -> Accelerator:
    chips = _chips(topology)
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
    if (match := _ANY_GPU.fullmatch(name)) and 1 <= int(match[1]) <= 16:
        count = int(match[1])
        return Accelerator(name, "gpu", "gpu", "", "", "", nodes, count, count)
    return None


def _cpu(name: str, nodes: int) -> Accelerator | None:
    if name == "cpu":
        return Accelerator(name, "cpu", "cpu", "", "", "", nodes, 1, 0)
    match = _CPU_NAME.fullmatch(name)
    if match is None or int(match["cpus"]) not in _CPUS.get(match["series"], ()):
        return None
    hosts = int(match["hosts"])
    if not 1 <= hosts <= _MOST_HOSTS:
        raise BadInput(f"{name}: {hosts} hosts", fix=f"take from 1 to {_MOST_HOSTS}")
    return Accelerator(name, "cpu", match["series"], match["machine"], "", "", hosts, int(match["cpus"]), 0)


@cache
def _topologies(family: _Family) -> Mapping[str, None]:
    """Returns all topologies of a family, small ones first."""
    if family.flat:
        return dict.fromkeys(family.flat)
    cubes = [shape for count in range(1, family.cubes + 1) for shape in _boxes(count, turned=family.turned)]
    small = ("1x1x1", *_SMALL) if family.one_chip else _SMALL
    return dict.fromkeys((*small, *(_written(shape) for shape in cubes)))


@cache
def _plain(family: _Family) -> Mapping[int, str]:
    """Returns the topology that each plain name of a family means, by the number in it."""
    if family.flat:
        return {_chips(topology): topology for topology in family.flat}
    small = ("1x1x1", *_SMALL) if family.one_chip else _SMALL
    names = {_chips(topology) * family.cores_per_chip: topology for topology in small}
    for count in range(1, family.cubes + 1):
        if boxes := list(_boxes(count, turned=False)):
            shape = min(boxes, key=sum) if count in family.nearest_to_cube else boxes[0]
            names[count * 64 * family.cores_per_chip] = _written(shape)
    return names


def _boxes(cubes: int, *, turned: bool) -> Iterator[tuple[int, int, int]]:
    """Yields the boxes that so many cubes make: sides in order of length, or (turned) in any order."""
    for a in range(1, cubes + 1):
        for b in range(1 if turned else a, cubes // a + 1):
            c, rest = divmod(cubes, a * b)
            if not rest and c <= _LONGEST_SIDE and (turned or c >= b):
                yield a, b, c


def _written(shape: tuple[int, int, int]) -> str:
    return "x".join(str(4 * side) for side in shape)


def _chips(topology: str) -> int:
    return math.prod(int(side) for side in topology.split("x"))


def _or(words: list[str]) -> str:
    shown = words[:6]
    return " or ".join((", ".join(shown[:-1]), shown[-1])) if len(shown) > 1 else shown[0]


def _meant(name: str) -> str:
    """Says which types were probably meant: the right prefix, with the sizes around the one written."""
    lower = name.lower()
    prefix, _, rest = lower.rpartition("-")
    for family in _FAMILIES:
        if prefix not in (family.prefix, *family.also):
            continue
        if rest in _topologies(family) or (rest.isdecimal() and int(rest) in _plain(family)):
            return f"did you mean {family.prefix}-{rest}?"
        if sorted_rest := _sorted(rest, family):
            return f"did you mean {family.prefix}-{sorted_rest}?"
        if rest.isdecimal():
            near = sorted(_plain(family), key=lambda one: abs(one - int(rest)))[:3]
            unit = "TensorCores, two a chip" if family.cores_per_chip == 2 else "chips"
            names = _or([f"{family.prefix}-{one}" for one in sorted(near)])
            return f"did you mean {names}? ({family.name} counts {unit})"
    near_name = nearest(lower, known_names())
    prefixes = ", ".join(f"{family.prefix}-N" for family in _FAMILIES)
    known = f"types are {prefixes}, {', '.join(_GPUS)}, n2-standard-32-1, cpu"
    return f"did you mean {near_name}?" if near_name else known


def _sorted(rest: str, family: _Family) -> str | None:
    """Returns the topology with its sides in the family's order, when it is one then."""
    if not re.fullmatch(r"\d+(x\d+)+", rest):
        return None
    ordered = "x".join(sorted(rest.split("x"), key=int))
    return ordered if ordered in _topologies(family) else None
