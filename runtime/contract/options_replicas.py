"""Options of the benchmarks of replicas: several copies of one state, each on machines of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from runtime.contract.options import BenchmarkOptions, Rule, all_of, not_negative, positive

_TIERS = all_of(
    positive(
        "persistent_save_interval_steps",
        "persistent_max_to_keep",
        "local_save_interval_steps",
        "local_max_to_keep",
        "train_steps",
    ),
    not_negative("replica_axis_index"),
)


@dataclass(frozen=True, kw_only=True)
class PeerToPeerOptions(BenchmarkOptions):
    """P2pCheckpointManagerBenchmark: a local tier on every host, and one that all share."""

    rule: ClassVar[Rule] = staticmethod(_TIERS)

    persistent_save_interval_steps: int = 5
    persistent_max_to_keep: int = 5
    local_save_interval_steps: int = 2
    local_max_to_keep: int = 2
    replica_axis_index: int = 0
    train_steps: int = 10


@dataclass(frozen=True, kw_only=True)
class EmergencyOptions(PeerToPeerOptions):
    """EmergencyCheckpointManagerBenchmark. The last two decide how Orbax numbers processes and devices."""

    single_host_load_and_broadcast: bool = True
    experimental_use_distributed_id_for_mesh_consistency: bool = True
    experimental_orbax_use_distributed_process_id: bool = True


@dataclass(frozen=True, kw_only=True)
class SingleReplicaOptions(BenchmarkOptions):
    """SingleReplicaBenchmark: `primary_replica_id` restores, and the others have it from there."""

    rule: ClassVar[Rule] = staticmethod(
        all_of(
            not_negative("replica_axis_index", "primary_replica_id"),
            positive("broadcast_memory_scaling_factor"),
        )
    )

    replica_axis_index: int = 0
    primary_replica_id: int = 0
    use_replica_parallel: bool = True
    broadcast_memory_limit_bytes: int | None = None
    broadcast_memory_scaling_factor: float = 0.75
    use_colocated_python: bool = False
    use_distributed_process_id: bool = True


@dataclass(frozen=True, kw_only=True)
class MultisliceBroadcastOptions(BenchmarkOptions):
    """MultisliceBroadcastBenchmark."""

    rule: ClassVar[Rule] = staticmethod(not_negative("replica_axis_index"))

    replica_axis_index: int = 0


@dataclass(frozen=True, kw_only=True)
class DispatchOptions(BenchmarkOptions):
    """MultihostDispatchersBenchmark. Without `use_colocated` the same functions are called in the worker itself."""

    use_colocated: bool = False
    device_count: int | None = None
