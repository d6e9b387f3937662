"""Options of the benchmark that trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from runtime.contract.options import BenchmarkOptions, Rule, all_of, not_negative, positive


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(BenchmarkOptions):
    """Training of a model of `layers` layers, each of `width` times `width` weights, with Adam: three times as much is
    saved. `batch` is rows of a step for each device. `step_s`: shortest time of a step, seconds; where computing takes
    less, it waits, as if the model were larger.
    """

    rule: ClassVar[Rule] = staticmethod(
        all_of(
            positive("train_steps", "save_interval_steps", "max_to_keep", "layers", "width", "batch"),
            not_negative("step_s"),
        )
    )

    train_steps: int = 20
    save_interval_steps: int = 5
    max_to_keep: int = 2
    async_enabled: bool = True
    layers: int = 4
    width: int = 512
    batch: int = 8
    step_s: float = 0.0
