"""Options of the benchmarks that read a checkpoint which is there, and of the one that makes it.

A path that begins with {run}/ lies in the run's own folder and goes with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from runtime.contract.options import (
    BenchmarkOptions,
    Rule,
    SaveLoadOptions,
    all_of,
    positive,
    why_no_separate_folder,
)

LAYOUTS = ("orbax", "safetensors")
_MESHES = re.compile(r"\d+(x\d+)*( \d+(x\d+)*)*")


def given(*names: str) -> Rule:
    """Returns the rule that none of these options is null."""

    def why_invalid(options: Mapping[str, Any]) -> str | None:
        missing = [name for name in names if options[name] is None]
        return f"{' and '.join(missing)} must be given" if missing else None

    return why_invalid


_REFERENCE = all_of(given("reference_checkpoint_path", "reference_sharding_path"), why_no_separate_folder)


@dataclass(frozen=True, kw_only=True)
class ReshardingOptions(SaveLoadOptions):
    """v1 ReshardingBenchmark: a checkpoint is loaded with the shardings of a JSON file."""

    rule: ClassVar[Rule] = staticmethod(_REFERENCE)

    reference_checkpoint_path: str | None = None
    reference_sharding_path: str | None = None


@dataclass(frozen=True, kw_only=True)
class RestoreAndBroadcastOptions(ReshardingOptions):
    """v1 RestoreAndBroadcastBenchmark: the shardings are those of one replica, and the mesh is replica × model."""

    use_load_and_broadcast: bool = True


@dataclass(frozen=True, kw_only=True)
class ReplicaParallelOptions(ReshardingOptions):
    """v1 ReplicaParallelMultislice: likewise; what was loaded is saved `num_savings` times."""

    rule: ClassVar[Rule] = staticmethod(all_of(_REFERENCE, positive("num_savings")))

    num_savings: int = 1


@dataclass(frozen=True, kw_only=True)
class LoadOptions(BenchmarkOptions):
    """What the benchmarks that only load have. Digests are of the SHA-256 of each leaf, a file for each worker."""

    rule: ClassVar[Rule] = staticmethod(given("checkpoint_path"))

    checkpoint_path: str | None = None
    sharding_config_path: str | None = None
    capture_digests_path: str | None = None
    reference_digests_path: str | None = None
    use_load_and_broadcast: bool = False


@dataclass(frozen=True, kw_only=True)
class OrbaxLoadOptions(LoadOptions):
    """OrbaxLoadBenchmark."""

    use_colocated_python: bool = False
    restore_concurrent_gb: int | None = None
    metric_tracemalloc_enabled: bool = False


@dataclass(frozen=True, kw_only=True)
class SafetensorLoadOptions(LoadOptions):
    """SafetensorLoadBenchmark. `enable_xprof` is for Google's own machines and does nothing elsewhere."""

    restore_concurrent_gb: int | None = None
    safetensors_max_over_read_ratio: float | None = None
    safetensors_read_chunk_mb: int | None = None
    metric_tracemalloc_enabled: bool = False
    enable_xprof: bool = False


def _why_no_reference(options: Mapping[str, Any]) -> str | None:
    if options["layout"] not in LAYOUTS:
        return f"layout must be one of {', '.join(LAYOUTS)}, not {options['layout']}"
    meshes = options["meshes"]
    if meshes is not None and not _MESHES.fullmatch(meshes):
        return f"meshes must be sizes of the mesh's axes such as '4x1 2x2', not {meshes!r}"
    return None


@dataclass(frozen=True, kw_only=True)
class ReferenceOptions(BenchmarkOptions):
    """Reference: saves the suite's checkpoint into the folder `to`, for the benchmarks that come after it.

    `meshes`: sizes of the mesh's axes; for each the shardings of all arrays are written beside it, as `<sizes>.json`.
    """

    rule: ClassVar[Rule] = staticmethod(_why_no_reference)

    to: str
    layout: str = "orbax"
    meshes: str | None = None
