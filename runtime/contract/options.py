"""Options of the native benchmarks: Orbax 0.12.8's names, defaults and order, as plain dataclasses.

A suite may give each option one value, or a list of values to try in turn; here every option has one
value. The order of fields is the order of expansion, last fastest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["bool", "int", "float", "str", "policies"]

REQUIRED: Final = "<required>"
"""Default of an option that has none."""


@dataclass(frozen=True)
class Option:
    """One option of a benchmark class: what values it takes, and the one it has when a suite is silent."""

    name: str
    kind: Kind
    default: Any = REQUIRED
    nullable: bool = False


def why_no_separate_folder(options: Mapping[str, Any]) -> str | None:
    """Returns why the options contradict each other (Orbax's rule for replica-parallel saves), or None."""
    if not options["enable_replica_parallel_separate_folder"]:
        return None
    missing = [name for name in ("use_replica_parallel", "use_ocdbt") if not options[name]]
    return f"enable_replica_parallel_separate_folder needs {' and '.join(missing)}" if missing else None


def why_no_training(options: Mapping[str, Any]) -> str | None:
    """Returns what is wrong with the options of a training, or None."""
    counts = ("train_steps", "save_interval_steps", "max_to_keep", "layers", "width", "batch")
    wrong = [name for name in counts if options[name] < 1]
    if options["step_s"] < 0:
        wrong.append("step_s")
    return f"{' and '.join(wrong)} must be positive" if wrong else None


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions:
    """What every benchmark has. `enable_trace` records a profile of each measured operation, of the first
    repeat only unless `trace_every_repeat`."""

    enable_trace: bool = False
    trace_every_repeat: bool = False

    def is_valid(self) -> bool:
        """Whether these values make sense together. Whether a backend can run them is another question: see fit.py."""
        return True


@dataclass(frozen=True, kw_only=True)
class PyTreeCheckpointOptions(BenchmarkOptions):
    """PyTreeCheckpointBenchmark. Sizes ending in _gb are GiB; None leaves the choice to Orbax."""

    async_enabled: bool = True
    use_ocdbt: bool = True
    use_zarr3: bool = False
    use_compression: bool = True
    save_concurrent_gb: int | None = None
    restore_concurrent_gb: int | None = None
    metric_tracemalloc_enabled: bool = False
    use_replica_parallel: bool = False
    enable_replica_parallel_separate_folder: bool = False
    use_colocated_python: bool = False
    save_device_host_concurrent_gb: int | None = None

    def is_valid(self) -> bool:
        return why_no_separate_folder(vars(self)) is None


@dataclass(frozen=True, kw_only=True)
class ArrayHandlerOptions(BenchmarkOptions):
    """ArrayHandlerBenchmark."""

    use_ocdbt: bool = True
    use_zarr3: bool = False
    use_colocated_python: bool = False
    use_replica_parallel: bool = False
    enable_replica_parallel_separate_folder: bool = False
    use_metadata_store: bool = False

    def is_valid(self) -> bool:
        return why_no_separate_folder(vars(self)) is None


@dataclass(frozen=True, kw_only=True)
class CheckpointManagerOptions(BenchmarkOptions):
    """CheckpointManagerBenchmark."""

    save_interval_steps: int = 1
    max_to_keep: int = 1
    train_steps: int = 1


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(BenchmarkOptions):
    """Training of a model of `layers` layers, each of `width` times `width` weights, with Adam: three times as much is
    saved. `batch` is rows of a step for each device. `step_s`: shortest time of a step, seconds; where computing takes
    less, it waits, as if the model were larger.
    """

    train_steps: int = 20
    save_interval_steps: int = 5
    max_to_keep: int = 2
    async_enabled: bool = True
    layers: int = 4
    width: int = 512
    batch: int = 8
    step_s: float = 0.0

    def is_valid(self) -> bool:
        return why_no_training(vars(self)) is None


@dataclass(frozen=True, kw_only=True)
class SaveLoadOptions(BenchmarkOptions):
    """The v1 save/load benchmark, `v1.benchmark.Benchmark`. Sizes ending in _gb are GiB, `chunk_byte_size` bytes."""

    async_enabled: bool = True
    use_ocdbt: bool = True
    use_zarr3: bool = True
    use_compression: bool = True
    save_concurrent_gb: int | None = None
    restore_concurrent_gb: int | None = None
    metric_tracemalloc_enabled: bool = False
    use_load_and_broadcast: bool = False
    use_replica_parallel: bool = False
    enable_replica_parallel_separate_folder: bool = False
    chunk_byte_size: int | None = None

    def is_valid(self) -> bool:
        return why_no_separate_folder(vars(self)) is None


_KINDS: Mapping[str, Kind] = {"bool": "bool", "int": "int", "float": "float", "str": "str"}


def options_of(cls: type[BenchmarkOptions]) -> tuple[Option, ...]:
    """Returns the options of a dataclass above, in field order."""
    return tuple(
        Option(
            field.name,
            _KINDS[str(field.type).removesuffix(" | None")],
            field.default,
            "None" in str(field.type),
        )
        for field in dataclasses.fields(cls)
    )
