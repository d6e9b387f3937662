"""What options of benchmarks are, and those of the plainest: Orbax 0.12.8's names, defaults and order, as dataclasses.

A suite may give each option one value, or a list of values to try in turn; here every option has one
value. The order of fields is the order of expansion, last fastest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

Kind = Literal["bool", "int", "float", "str", "policies"]
Rule = Callable[[Mapping[str, Any]], str | None]
"""Judges one combination of options: returns what is wrong with it, or None."""
Policies = Mapping[str, Any]
"""Which steps a checkpoint manager saves and keeps, as a suite writes it; suite_options.py says what may be there."""

REQUIRED: Final = "<required>"
"""Default of an option that has none."""


@dataclass(frozen=True)
class Option:
    """One option of a benchmark class: what values it takes, and the one it has when a suite is silent."""

    name: str
    kind: Kind
    default: Any = REQUIRED
    nullable: bool = False


def always_valid(options: Mapping[str, Any]) -> str | None:
    """Finds nothing wrong with any options."""
    return None


def positive(*names: str) -> Rule:
    """Returns the rule that each of these options is above zero, and a number that there is an end to."""

    def why_invalid(options: Mapping[str, Any]) -> str | None:
        wrong = [name for name in names if options[name] <= 0]
        return f"{' and '.join(wrong)} must be positive" if wrong else _endless(options, names)

    return why_invalid


def not_negative(*names: str) -> Rule:
    """Returns the rule that none of these options is below zero, and each a number that there is an end to."""

    def why_invalid(options: Mapping[str, Any]) -> str | None:
        wrong = [name for name in names if options[name] < 0]
        return f"{' and '.join(wrong)} must not be negative" if wrong else _endless(options, names)

    return why_invalid


def _endless(options: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Returns which of some options is infinite, or no number (nan), which is neither below zero nor above; or None."""
    wrong = [name for name in names if not abs(options[name]) < math.inf]
    return f"{' and '.join(wrong)} must be a finite number" if wrong else None


def all_of(*rules: Rule) -> Rule:
    """Returns the rule that breaks where the first of these does."""

    def why_invalid(options: Mapping[str, Any]) -> str | None:
        return next((why for rule in rules if (why := rule(options)) is not None), None)

    return why_invalid


def why_no_separate_folder(options: Mapping[str, Any]) -> str | None:
    """Returns why the options contradict each other (Orbax's rule for replica-parallel saves), or None."""
    if not options["enable_replica_parallel_separate_folder"]:
        return None
    missing = [name for name in ("use_replica_parallel", "use_ocdbt") if not options[name]]
    return f"enable_replica_parallel_separate_folder needs {' and '.join(missing)}" if missing else None


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions:
    """What every benchmark has. `enable_trace` records a profile of each measured operation, of the first
    repeat only unless `trace_every_repeat`. `rule` judges the values together."""

    rule: ClassVar[Rule] = staticmethod(always_valid)

    enable_trace: bool = False
    trace_every_repeat: bool = False

    def is_valid(self) -> bool:
        """Whether these values make sense together. Whether a backend can run them is another question: see fit.py."""
        return type(self).rule(vars(self)) is None


@dataclass(frozen=True, kw_only=True)
class PyTreeCheckpointOptions(BenchmarkOptions):
    """PyTreeCheckpointBenchmark. Sizes ending in _gb are GiB; None leaves the choice to Orbax."""

    rule: ClassVar[Rule] = staticmethod(why_no_separate_folder)

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


@dataclass(frozen=True, kw_only=True)
class ArrayHandlerOptions(BenchmarkOptions):
    """ArrayHandlerBenchmark."""

    rule: ClassVar[Rule] = staticmethod(why_no_separate_folder)

    use_ocdbt: bool = True
    use_zarr3: bool = False
    use_colocated_python: bool = False
    use_replica_parallel: bool = False
    enable_replica_parallel_separate_folder: bool = False
    use_metadata_store: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckpointManagerOptions(BenchmarkOptions):
    """CheckpointManagerBenchmark."""

    save_interval_steps: int = 1
    max_to_keep: int = 1
    train_steps: int = 1


@dataclass(frozen=True, kw_only=True)
class SaveLoadOptions(BenchmarkOptions):
    """The v1 save/load benchmark, `v1.benchmark.Benchmark`. Sizes ending in _gb are GiB, `chunk_byte_size` bytes."""

    rule: ClassVar[Rule] = staticmethod(why_no_separate_folder)

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


_KINDS: Mapping[str, Kind] = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "Policies": "policies",
}


def options_of(cls: type[BenchmarkOptions]) -> tuple[Option, ...]:
    """Returns the options of such a dataclass, in field order."""
    return tuple(
        Option(
            field.name,
            _KINDS[str(field.type).removesuffix(" | None")],
            REQUIRED if field.default is dataclasses.MISSING else field.default,
            "None" in str(field.type),
        )
        for field in dataclasses.fields(cls)
    )
