"""Options of the benchmarks of what strains a save: training beside it, many arrays, repetition, failing parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from runtime.contract.options import (
    BenchmarkOptions,
    PyTreeCheckpointOptions,
    Rule,
    all_of,
    not_negative,
    positive,
    why_no_separate_folder,
)


@dataclass(frozen=True, kw_only=True)
class InterferenceOptions(BenchmarkOptions):
    """Interference: `rounds` times `steps` steps alone, and as many from the beginning of a save on.

    The model is as that of TrainingOptions.
    """

    rule: ClassVar[Rule] = staticmethod(
        all_of(positive("rounds", "steps", "layers", "width", "batch"), not_negative("step_s"))
    )

    rounds: int = 3
    steps: int = 20
    layers: int = 4
    width: int = 512
    batch: int = 8
    step_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ManyArraysOptions(PyTreeCheckpointOptions):
    """ManyArrays: a tree of `arrays` arrays of `elements` float32 each; the rest is PyTreeCheckpointOptions."""

    rule: ClassVar[Rule] = staticmethod(all_of(positive("arrays", "elements"), why_no_separate_folder))

    arrays: int = 1000
    elements: int = 256


def _too_few_cycles(options: Mapping[str, Any]) -> str | None:
    return None if options["cycles"] >= 3 else "cycles must be 3 or more: a slope needs several points"


@dataclass(frozen=True, kw_only=True)
class MemoryGrowthOptions(BenchmarkOptions):
    """MemoryGrowth: so many saves and restores, after `settle` that do not count."""

    rule: ClassVar[Rule] = staticmethod(all_of(_too_few_cycles, not_negative("settle")))

    cycles: int = 8
    settle: int = 2
    async_enabled: bool = True


@dataclass(frozen=True, kw_only=True)
class GarbageCollectionOptions(BenchmarkOptions):
    """GarbageCollection: `steps` saves by a manager that keeps the newest `max_to_keep`, and as many by one that keeps
    all. `enable_background_delete`: Orbax deletes beside the saves that follow, not within each.
    """

    rule: ClassVar[Rule] = staticmethod(positive("steps", "max_to_keep", "num_deletion_threads"))

    steps: int = 6
    max_to_keep: int = 1
    num_deletion_threads: int = 1
    enable_background_delete: bool = False


@dataclass(frozen=True, kw_only=True)
class FirstSaveOptions(BenchmarkOptions):
    """FirstSave: one save after all compiled programs were forgotten, then `saves` more. `cached_on_disk`: a cache on
    disk has them, as when the process is not the first of its kind.
    """

    rule: ClassVar[Rule] = staticmethod(positive("saves"))

    saves: int = 3
    use_replica_parallel: bool = True
    cached_on_disk: bool = False


@dataclass(frozen=True, kw_only=True)
class SlowWorkerOptions(BenchmarkOptions):
    """SlowWorker: `slow_worker` comes `late_s` seconds late to every other save and restore, `rounds` of each kind."""

    rule: ClassVar[Rule] = staticmethod(all_of(positive("rounds", "late_s"), not_negative("slow_worker")))

    slow_worker: int = 0
    late_s: float = 1.0
    rounds: int = 2


def _why_no_fault(options: Mapping[str, Any]) -> str | None:
    if not 0 <= options["fraction"] <= 0.5:
        return "fraction must be from 0 to 0.5: above, clients give up"
    if options["status"] not in (429, 500, 502, 503, 504):
        return f"status must be one that clients try again after, such as 429 or 503, not {options['status']}"
    if not options["fraction"] and not options["latency_s"]:
        return "fraction and latency_s are both zero: nothing would be wrong with the storage"
    return None


@dataclass(frozen=True, kw_only=True)
class StorageFaultsOptions(BenchmarkOptions):
    """StorageFaults: of all requests to the object store, `fraction` are answered with `status`, and each that goes on
    waits `latency_s` seconds.
    """

    rule: ClassVar[Rule] = staticmethod(all_of(not_negative("latency_s"), _why_no_fault))

    latency_s: float = 0.0
    status: int = 503
    fraction: float = 0.0
