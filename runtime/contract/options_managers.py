"""Options of the benchmarks of a checkpoint manager's duties: what it saves and keeps, deletes, and breaks off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from runtime.contract.options import BenchmarkOptions, Policies, Rule, all_of, not_negative, positive


def _why_nothing_to_delete(options: Mapping[str, Any]) -> str | None:
    if options["max_to_keep"] > 1:
        return None
    return (
        "with max_to_keep 1 the manager itself deletes each step before that could be timed; give 2 or more"
    )


@dataclass(frozen=True, kw_only=True)
class CheckpointManagerPerfOptions(BenchmarkOptions):
    """CheckpointManagerPerfBenchmark. Orbax's own takes the first two and ignores them."""

    rule: ClassVar[Rule] = staticmethod(positive("train_steps"))

    use_ocdbt: bool = True
    use_zarr3: bool = False
    train_steps: int = 20


@dataclass(frozen=True, kw_only=True)
class CheckpointPolicyOptions(BenchmarkOptions):
    """CheckpointPolicyBenchmark: so many steps are offered to a manager that saves and keeps what the policies say."""

    rule: ClassVar[Rule] = staticmethod(positive("num_checkpoints"))

    checkpoint_policies_options: Policies
    num_checkpoints: int = 1000


@dataclass(frozen=True, kw_only=True)
class DeleterOptions(BenchmarkOptions):
    """DeleterBenchmark."""

    rule: ClassVar[Rule] = staticmethod(
        all_of(
            positive("save_interval_steps", "max_to_keep", "train_steps", "num_deletion_threads"),
            _why_nothing_to_delete,
        )
    )

    save_interval_steps: int = 1
    max_to_keep: int = 1
    train_steps: int = 5
    num_deletion_threads: int = 1


@dataclass(frozen=True, kw_only=True)
class CancelOptions(BenchmarkOptions):
    """V0CheckpointerCancelBenchmark: a save is broken off `cancel_delay_secs` after it has begun."""

    rule: ClassVar[Rule] = staticmethod(not_negative("cancel_delay_secs"))

    cancel_delay_secs: int = 2
    perform_cancellation: bool = True


@dataclass(frozen=True, kw_only=True)
class V1CancelOptions(BenchmarkOptions):
    """V1CheckpointerCancelBenchmark: likewise, and the next step is saved at once after it."""

    rule: ClassVar[Rule] = staticmethod(not_negative("cancel_delay_secs"))

    cancel_delay_secs: float = 2.0
    perform_cancellation: bool = True
