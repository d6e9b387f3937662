"""Every benchmark class that is known without importing it: Orbax 0.12.8's, and which are native here.

A suite names a class by its dotted path. A path that is in no table here is a user's class: its options
are looked at later, where its code may run. tests/runtime/contract/test_orbax_suites.py holds the table
against Orbax itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from runtime.contract.options import (
    REQUIRED,
    ArrayHandlerOptions,
    BenchmarkOptions,
    CheckpointManagerOptions,
    Option,
    PyTreeCheckpointOptions,
    SaveLoadOptions,
    TrainingOptions,
    options_of,
    why_no_separate_folder,
    why_no_training,
)

ORBAX_PREFIX = "orbax.checkpoint._src.testing.benchmarks."
NATIVE_PREFIX = "runtime.benchmarks."

Rule = Callable[[Mapping[str, Any]], str | None]
Requirement = Literal["pathways", "cloudpickle", "torch", "gpu"]
Data = Literal["any", "needed", "forbidden"]


def _always_valid(options: Mapping[str, Any]) -> str | None:
    return None


def _needs_paths(*names: str, then: Rule = _always_valid) -> Rule:
    def why_invalid(options: Mapping[str, Any]) -> str | None:
        missing = [name for name in names if options[name] is None]
        return f"{' and '.join(missing)} must be given" if missing else then(options)

    return why_invalid


@dataclass(frozen=True)
class Generator:
    """What is known of a benchmark class.

    `name` is Orbax's dotted path; of a class of ours that has no twin there, our own. `native` is the path of our own
    class, or None; `definition` is the version of what the native class measures, raised whenever its numbers stop
    being comparable.
    `resumes`: the native class can go on from a checkpoint in the middle of a repeat, after a disruption;
    `own_data`: it makes what it saves itself.
    `why_invalid` judges one combination of options. `data` says whether the class needs a checkpoint of
    the suite (`needed`) or brings its own (`forbidden`); `tree_keys` are names that must be in it. `when`
    maps an option to what a true value demands.
    """

    name: str
    options: tuple[Option, ...]
    why_invalid: Rule = _always_valid
    native: str | None = None
    native_options: type[BenchmarkOptions] | None = None
    definition: int = 1
    data: Data = "any"
    tree_keys: tuple[str, ...] = ()
    requires: frozenset[Requirement] = frozenset()
    when: Mapping[str, Requirement] | None = None
    resumes: bool = False
    own_data: bool = False

    def requirements(self, options: Mapping[str, Any]) -> frozenset[Requirement]:
        """What a machine must have to run this class with these options."""
        return self.requires | {need for name, need in (self.when or {}).items() if options.get(name)}


def _bool(name: str, default: bool = False) -> Option:
    return Option(name, "bool", default)


def _int(name: str, default: int | None = None) -> Option:
    return Option(name, "int", default, nullable=default is None)


def _path(name: str) -> Option:
    return Option(name, "str", None, nullable=True)


_BASE = options_of(BenchmarkOptions)
_V1 = options_of(SaveLoadOptions)
_REFERENCE = (_path("reference_checkpoint_path"), _path("reference_sharding_path"))
_reference_given = _needs_paths(
    "reference_checkpoint_path", "reference_sharding_path", then=why_no_separate_folder
)
_LOAD = (
    _path("checkpoint_path"),
    _path("sharding_config_path"),
    _path("capture_digests_path"),
    _path("reference_digests_path"),
    _bool("use_load_and_broadcast"),
)
_TIERS = (
    _int("persistent_save_interval_steps", 5),
    _int("persistent_max_to_keep", 5),
    _int("local_save_interval_steps", 2),
    _int("local_max_to_keep", 2),
    _int("replica_axis_index", 0),
    _int("train_steps", 10),
)


def _native(name: str, path: str, options: type[BenchmarkOptions], **more: Any) -> Generator:
    return Generator(
        ORBAX_PREFIX + name,
        options_of(options),
        native=NATIVE_PREFIX + path,
        native_options=options,
        data="needed",
        **more,
    )


def _orbax(name: str, *options: Option, base: tuple[Option, ...] = _BASE, **more: Any) -> Generator:
    return Generator(ORBAX_PREFIX + name, base + options, **more)


def _v1_with_broadcast(default: bool) -> tuple[Option, ...]:
    """The v1 options where a subclass redefines one default: a dataclass field keeps its place."""
    return tuple(
        _bool("use_load_and_broadcast", default) if option.name == "use_load_and_broadcast" else option
        for option in _V1
    )


_ALL = (
    _native(
        "pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark",
        "pytree_checkpoint.PyTreeCheckpoint",
        PyTreeCheckpointOptions,
        why_invalid=why_no_separate_folder,
        when={"use_colocated_python": "pathways"},
    ),
    _native(
        "array_handler_benchmark.ArrayHandlerBenchmark",
        "array_handler.ArrayHandler",
        ArrayHandlerOptions,
        why_invalid=why_no_separate_folder,
        tree_keys=("array",),
        when={"use_colocated_python": "pathways"},
    ),
    _native(
        "checkpoint_manager_benchmark.CheckpointManagerBenchmark",
        "checkpoint_manager.CheckpointManager",
        CheckpointManagerOptions,
        resumes=True,
    ),
    _native(
        "v1.benchmark.Benchmark", "save_load.SaveLoad", SaveLoadOptions, why_invalid=why_no_separate_folder
    ),
    _orbax(
        "v1.resharding_benchmark.ReshardingBenchmark",
        *_REFERENCE,
        base=_V1,
        why_invalid=_reference_given,
        data="forbidden",
    ),
    _orbax(
        "v1.restore_and_broadcast_benchmark.RestoreAndBroadcastBenchmark",
        *_REFERENCE,
        base=_v1_with_broadcast(True),
        why_invalid=_reference_given,
        data="forbidden",
    ),
    _orbax(
        "v1.replica_parallel_multislice_benchmark.ReplicaParallelMultislice",
        *_REFERENCE,
        _int("num_savings", 1),
        base=_V1,
        why_invalid=_reference_given,
        data="forbidden",
    ),
    _orbax(
        "v1.snapshotter_benchmark.SnapshotterBenchmark",
        _int("num_scale_down_slices", 1),
        _int("num_scale_up_slices", 2),
        _int("num_savings", 1),
        base=_V1,
        why_invalid=why_no_separate_folder,
        requires=frozenset({"pathways"}),
    ),
    _orbax(
        "checkpoint_manager_perf_benchmark.CheckpointManagerPerfBenchmark",
        _bool("use_ocdbt", True),
        _bool("use_zarr3"),
        _int("train_steps", 20),
    ),
    _orbax(
        "checkpoint_policy_benchmark.CheckpointPolicyBenchmark",
        Option("checkpoint_policies_options", "policies", REQUIRED),
        _int("num_checkpoints", 1000),
    ),
    _orbax(
        "deleter_benchmark.DeleterBenchmark",
        _int("save_interval_steps", 1),
        _int("max_to_keep", 1),
        _int("train_steps", 5),
        _int("num_deletion_threads", 1),
    ),
    _orbax(
        "emergency_checkpoint_manager_benchmark.EmergencyCheckpointManagerBenchmark",
        *_TIERS,
        _bool("single_host_load_and_broadcast", True),
        _bool("experimental_use_distributed_id_for_mesh_consistency", True),
        _bool("experimental_orbax_use_distributed_process_id", True),
    ),
    _orbax("p2p_checkpoint_manager_benchmark.P2pCheckpointManagerBenchmark", *_TIERS),
    _orbax(
        "single_replica_benchmark.SingleReplicaBenchmark",
        _int("replica_axis_index", 0),
        _int("primary_replica_id", 0),
        _bool("use_replica_parallel", True),
        _int("broadcast_memory_limit_bytes"),
        Option("broadcast_memory_scaling_factor", "float", 0.75),
        _bool("use_colocated_python"),
        _bool("use_distributed_process_id", True),
        when={"use_colocated_python": "cloudpickle"},
    ),
    _orbax("multislice_broadcast_benchmark.MultisliceBroadcastBenchmark", _int("replica_axis_index", 0)),
    _orbax(
        "multihost_dispatchers_benchmark.MultihostDispatchersBenchmark",
        _bool("use_colocated"),
        _int("device_count"),
        when={"use_colocated": "cloudpickle"},
    ),
    _orbax(
        "v0_checkpointer_cancel_benchmark.V0CheckpointerCancelBenchmark",
        _int("cancel_delay_secs", 2),
        _bool("perform_cancellation", True),
    ),
    _orbax(
        "v1_checkpointer_cancel_benchmark.V1CheckpointerCancelBenchmark",
        Option("cancel_delay_secs", "float", 2.0),
        _bool("perform_cancellation", True),
    ),
    _orbax(
        "orbax_load.load_benchmark.OrbaxLoadBenchmark",
        *_LOAD,
        _bool("use_colocated_python"),
        _int("restore_concurrent_gb"),
        _bool("metric_tracemalloc_enabled"),
        why_invalid=_needs_paths("checkpoint_path"),
    ),
    _orbax(
        "safetensors.load_benchmark.SafetensorLoadBenchmark",
        *_LOAD,
        _int("restore_concurrent_gb"),
        Option("safetensors_max_over_read_ratio", "float", None, nullable=True),
        _int("safetensors_read_chunk_mb"),
        _bool("metric_tracemalloc_enabled"),
        _bool("enable_xprof"),
        why_invalid=_needs_paths("checkpoint_path"),
        data="forbidden",
    ),
    _orbax(
        "pytorch_checkpoint_benchmark.PyTorchCheckpointBenchmark",
        Option("reference_checkpoint_path", "str", REQUIRED),
        _bool("metric_tracemalloc_enabled"),
        _bool("enable_async_save"),
        _int("save_thread_count", 10),
        _int("save_per_thread_copy_ahead_mb", 100),
        _bool("cache_staged_state_dict"),
        _bool("enable_gcs_connector"),
        _bool("single_file_per_rank"),
        requires=frozenset({"torch", "gpu"}),
    ),
)

_OURS = (
    Generator(
        NATIVE_PREFIX + "training.Training",
        options_of(TrainingOptions),
        native=NATIVE_PREFIX + "training.Training",
        native_options=TrainingOptions,
        why_invalid=why_no_training,
        resumes=True,
        own_data=True,
    ),
)
"""Classes of ours that Orbax has none like."""

GENERATORS: Mapping[str, Generator] = {generator.name: generator for generator in _ALL}
"""Orbax's dotted name → what is known of the class."""

_BY_NATIVE_NAME = {generator.native: generator for generator in (*_ALL, *_OURS) if generator.native}

RESUMING = tuple(generator for generator in (*_ALL, *_OURS) if generator.resumes)
"""Those that can be disrupted."""


def find(name: str) -> Generator | None:
    """Returns what is known of a class by Orbax's dotted name or our own; None for a user's class."""
    return GENERATORS.get(name) or _BY_NATIVE_NAME.get(name)


def known_names() -> tuple[str, ...]:
    """Every dotted name that `find` knows."""
    return (*GENERATORS, *(name for name in _BY_NATIVE_NAME if name))
