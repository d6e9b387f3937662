"""What a suite is: benchmarks × options × meshes × checkpoints, and the points it expands to.

Orbax's format, read as is (suite_reader.py), with some additions: `warmup`, `repeats`, `deadline_s`, `limits`,
`disruption`, and trees inside `spec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from runtime.contract.disruption import Disruption
from runtime.contract.errors import Place, Problem
from runtime.contract.repeats import Adaptive

Implementation = Literal["native", "orbax", "user"]

PageCache = Literal["", "cold", "drop"]
"""`cold`: the checkpoint's files are evicted before they are read; `drop`: all files of the host are, which takes root;
nothing: they are read as they are, mostly from memory."""


@dataclass(frozen=True)
class ArraySpec:
    """One array of a checkpoint: a jax.numpy dtype name, a global shape, and PartitionSpec entries."""

    dtype: str
    shape: tuple[int, ...]
    sharding: tuple[str | tuple[str, ...] | None, ...] | None = None


ScalarSpec = Literal["int", "str"]
TreeSpec = Mapping[str, "ArraySpec | ScalarSpec | TreeSpec"]
"""A tree of arrays and scalars by name; nesting is slicebench's extension of Orbax's flat form."""


@dataclass(frozen=True)
class CheckpointSpec:
    """Which data a point saves: made from `spec`, read from `path`, or none at all."""

    spec: TreeSpec | None = None
    path: str | None = None
    random_seed: int = 0
    sharding_config_path: str | None = None
    load_with_colocated_python: bool = False


@dataclass(frozen=True)
class MeshSpec:
    """How devices are laid out: axis names in order, and the size of each within (ici) and across (dcn) slices."""

    mesh_axes: tuple[str, ...]
    ici_parallelism: Mapping[str, int] = field(default_factory=dict)
    dcn_parallelism: Mapping[str, int] | None = None
    allow_split_physical_axes: bool = False
    process_is_granule: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Total size of each axis, in the order of `mesh_axes`."""
        dcn = self.dcn_parallelism or {}
        return tuple(self.ici_parallelism.get(axis, 1) * dcn.get(axis, 1) for axis in self.mesh_axes)


@dataclass(frozen=True)
class SimDeviceSpec:
    """A simulated TPU cluster (Orbax's `simdevice:` block): hardware profile, chips in three dimensions, hosts."""

    device_type: str
    topology: tuple[int, int, int]
    num_processes: int = 1
    fabricated_fill_seed: int | None = None


@dataclass(frozen=True)
class BenchmarkSpec:
    """One item of `benchmarks`: a class and, for each of its options in field order, the values to try.

    `generator` is the name to look up: Orbax's dotted name for every class of Orbax and every native one,
    else the user's. `options` has every option of a known class, defaults filled in; of a user's class
    those that were given. `place` is where the item stands, `disruption_place` where its disruption does.
    """

    generator: str
    implementation: Implementation
    options: Mapping[str, tuple[Any, ...]]
    deadline_s: float | None
    place: Place
    disruption: Disruption | None = None
    disruption_place: Place | None = None


@dataclass(frozen=True)
class Suite:
    """A suite that was read and found right.

    `meshes` is empty when the suite has none: points then run without a mesh. `checkpoints` is never
    empty. Each point runs `warmup` repeats, marked so, and then `num_repeats` more; where the suite is
    `adaptive`, that is the most. `deadline_s`: longest
    time for one point. `limits`: what the machines can do at best is measured before the first point.
    `page_cache`: what is done to it before a checkpoint is read. `interleave`: points of one class take turns, a
    repeat of each. `only`: the points that are measured, each by its
    number from 1, label or key; empty: all.
    """

    file: str
    name: str
    benchmarks: tuple[BenchmarkSpec, ...]
    meshes: tuple[MeshSpec, ...] = ()
    checkpoints: tuple[CheckpointSpec, ...] = (CheckpointSpec(),)
    num_repeats: int = 1
    warmup: int = 0
    deadline_s: float | None = None
    simdevice: SimDeviceSpec | None = None
    limits: bool = True
    adaptive: Adaptive | None = None
    page_cache: PageCache = ""
    interleave: bool = False
    only: tuple[str, ...] = ()
    only_places: tuple[Place, ...] = ()
    warnings: tuple[Problem, ...] = ()
    mesh_places: tuple[Place, ...] = ()
    checkpoint_places: tuple[Place, ...] = ()

    @property
    def repeats(self) -> int:
        """Repeats of each point, warm-up included."""
        return self.warmup + self.num_repeats


@dataclass(frozen=True)
class Point:
    """One benchmark with one choice of options, mesh and checkpoint; repeated `Suite.repeats` times.

    `benchmark` is a short label for people, unique within the suite. `key` is stable over versions of
    JAX, Orbax and Python: see expand.py. `generator` is the name to look up in generators.py. `options`
    holds every option of the benchmark, defaults filled in.
    """

    index: int
    benchmark: str
    key: str
    generator: str
    implementation: Implementation
    options: Mapping[str, Any]
    mesh: MeshSpec | None
    checkpoint: CheckpointSpec
    deadline_s: float | None = None
    disruption: Disruption | None = None
    page_cache: PageCache = ""
