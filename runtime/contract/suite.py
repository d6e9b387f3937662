"""What a suite is: benchmarks × options × meshes × checkpoints, and the points it expands to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


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
class Point:
    """One benchmark with one choice of options, mesh and checkpoint; repeated `num_repeats` times.

    `options` holds every option of the benchmark, defaults filled in. `key` is stable over versions of JAX, Orbax and
    Python: see `benchmark_key`.
    """

    index: int
    benchmark: str
    key: str
    generator: str
    implementation: Literal["native", "orbax", "user"]
    options: Mapping[str, Any]
    mesh: MeshSpec | None
    checkpoint: CheckpointSpec
    deadline_s: float | None = None
