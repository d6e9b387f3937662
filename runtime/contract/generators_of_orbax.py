"""Every benchmark class of Orbax 0.12.8, with its options and whether slicebench has a native one.

tests/runtime/contract/test_orbax_suites.py holds the table against Orbax itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.contract.generator import ORBAX_PREFIX, Generator, native
from runtime.contract.options import (
    REQUIRED,
    ArrayHandlerOptions,
    BenchmarkOptions,
    CheckpointManagerOptions,
    Option,
    PyTreeCheckpointOptions,
    Rule,
    SaveLoadOptions,
    always_valid,
    options_of,
    why_no_separate_folder,
)
from runtime.contract.options_managers import (
    CancelOptions,
    CheckpointManagerPerfOptions,
    CheckpointPolicyOptions,
    DeleterOptions,
    V1CancelOptions,
)


def _needs_paths(*names: str, then: Rule = always_valid) -> Rule:
    def why_invalid(options: Mapping[str, Any]) -> str | None:
        missing = [name for name in names if options[name] is None]
        return f"{' and '.join(missing)} must be given" if missing else then(options)

    return why_invalid


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


def _orbax(name: str, *options: Option, base: tuple[Option, ...] = _BASE, **more: Any) -> Generator:
    return Generator(ORBAX_PREFIX + name, base + options, **more)


def _v1_with_broadcast(default: bool) -> tuple[Option, ...]:
    """The v1 options where a subclass redefines one default: a dataclass field keeps its place."""
    return tuple(
        _bool("use_load_and_broadcast", default) if option.name == "use_load_and_broadcast" else option
        for option in _V1
    )


ORBAX: tuple[Generator, ...] = (
    native(
        "pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark",
        "pytree_checkpoint.PyTreeCheckpoint",
        PyTreeCheckpointOptions,
        when={"use_colocated_python": "pathways"},
    ),
    native(
        "array_handler_benchmark.ArrayHandlerBenchmark",
        "array_handler.ArrayHandler",
        ArrayHandlerOptions,
        tree_keys=("array",),
        when={"use_colocated_python": "pathways"},
    ),
    native(
        "checkpoint_manager_benchmark.CheckpointManagerBenchmark",
        "checkpoint_manager.CheckpointManager",
        CheckpointManagerOptions,
        resumes=True,
    ),
    native("v1.benchmark.Benchmark", "save_load.SaveLoad", SaveLoadOptions),
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
    native(
        "checkpoint_manager_perf_benchmark.CheckpointManagerPerfBenchmark",
        "checkpoint_manager_perf.CheckpointManagerPerf",
        CheckpointManagerPerfOptions,
    ),
    native(
        "checkpoint_policy_benchmark.CheckpointPolicyBenchmark",
        "checkpoint_policy.CheckpointPolicy",
        CheckpointPolicyOptions,
    ),
    native("deleter_benchmark.DeleterBenchmark", "deleter.Deleter", DeleterOptions),
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
    native("v0_checkpointer_cancel_benchmark.V0CheckpointerCancelBenchmark", "cancel.Cancel", CancelOptions),
    native(
        "v1_checkpointer_cancel_benchmark.V1CheckpointerCancelBenchmark", "cancel.V1Cancel", V1CancelOptions
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
