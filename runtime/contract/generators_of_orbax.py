"""Every benchmark class of Orbax 0.12.8, with its options and whether slicebench has a native one.

tests/runtime/contract/test_orbax_suites.py holds the table against Orbax itself.
"""

from __future__ import annotations

from typing import Any

from runtime.contract.generator import ORBAX_PREFIX, Generator, native
from runtime.contract.options import (
    REQUIRED,
    ArrayHandlerOptions,
    BenchmarkOptions,
    CheckpointManagerOptions,
    Option,
    PyTreeCheckpointOptions,
    SaveLoadOptions,
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
from runtime.contract.options_references import (
    OrbaxLoadOptions,
    ReplicaParallelOptions,
    ReshardingOptions,
    RestoreAndBroadcastOptions,
    SafetensorLoadOptions,
)
from runtime.contract.options_replicas import (
    DispatchOptions,
    EmergencyOptions,
    MultisliceBroadcastOptions,
    PeerToPeerOptions,
    SingleReplicaOptions,
)


def _bool(name: str) -> Option:
    return Option(name, "bool", False)


def _int(name: str, default: int | None = None) -> Option:
    return Option(name, "int", default, nullable=default is None)


_BASE = options_of(BenchmarkOptions)
_V1 = options_of(SaveLoadOptions)


def _orbax(name: str, *options: Option, base: tuple[Option, ...] = _BASE, **more: Any) -> Generator:
    return Generator(ORBAX_PREFIX + name, base + options, **more)


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
    native(
        "v1.resharding_benchmark.ReshardingBenchmark",
        "resharding.Resharding",
        ReshardingOptions,
        data="forbidden",
    ),
    native(
        "v1.restore_and_broadcast_benchmark.RestoreAndBroadcastBenchmark",
        "restore_and_broadcast.RestoreAndBroadcast",
        RestoreAndBroadcastOptions,
        data="forbidden",
    ),
    native(
        "v1.replica_parallel_multislice_benchmark.ReplicaParallelMultislice",
        "restore_and_broadcast.ReplicaParallel",
        ReplicaParallelOptions,
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
        known_by=("should_save",),
    ),
    native("deleter_benchmark.DeleterBenchmark", "deleter.Deleter", DeleterOptions, known_by=("delete",)),
    native(
        "emergency_checkpoint_manager_benchmark.EmergencyCheckpointManagerBenchmark",
        "emergency.EmergencyCheckpointManager",
        EmergencyOptions,
        workers=2,
        known_by=("restore_local", "restore_persistent"),
    ),
    native(
        "p2p_checkpoint_manager_benchmark.P2pCheckpointManagerBenchmark",
        "peer_to_peer.PeerToPeer",
        PeerToPeerOptions,
        workers=2,
        known_by=("restore_local", "restore_peer", "restore_persistent"),
    ),
    native(
        "single_replica_benchmark.SingleReplicaBenchmark",
        "single_replica.SingleReplica",
        SingleReplicaOptions,
        when={"use_colocated_python": "pathways"},
        workers=2,
    ),
    native(
        "multislice_broadcast_benchmark.MultisliceBroadcastBenchmark",
        "multislice_broadcast.MultisliceBroadcast",
        MultisliceBroadcastOptions,
        workers=2,
        known_by=("broadcast_array",),
    ),
    native(
        "multihost_dispatchers_benchmark.MultihostDispatchersBenchmark",
        "colocated_dispatch.ColocatedDispatch",
        DispatchOptions,
        tree_keys=("array",),
        when={"use_colocated": "cloudpickle"},
        known_by=("dispatch_*",),
    ),
    native(
        "v0_checkpointer_cancel_benchmark.V0CheckpointerCancelBenchmark",
        "cancel.Cancel",
        CancelOptions,
        known_by=("async_save_dispatch", "cancel_*", "restore_cost"),
    ),
    native(
        "v1_checkpointer_cancel_benchmark.V1CheckpointerCancelBenchmark",
        "cancel.V1Cancel",
        V1CancelOptions,
        known_by=("async_save_dispatch", "cancel_*", "restore_cost"),
    ),
    native(
        "orbax_load.load_benchmark.OrbaxLoadBenchmark",
        "checkpoint_load.OrbaxLoad",
        OrbaxLoadOptions,
        data="unused",
        when={"use_colocated_python": "pathways"},
    ),
    native(
        "safetensors.load_benchmark.SafetensorLoadBenchmark",
        "checkpoint_load.SafetensorLoad",
        SafetensorLoadOptions,
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
