"""Classes of ours that Orbax has none like."""

from __future__ import annotations

from runtime.contract.generator import Generator, ours
from runtime.contract.options_training import TrainingOptions

OURS: tuple[Generator, ...] = (ours("training.Training", TrainingOptions, resumes=True, own_data=True),)
