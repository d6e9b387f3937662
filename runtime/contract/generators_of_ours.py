"""Classes of ours that Orbax has none like."""

from __future__ import annotations

from runtime.contract.generator import Generator, ours
from runtime.contract.options_references import ReferenceOptions
from runtime.contract.options_strains import (
    FirstSaveOptions,
    GarbageCollectionOptions,
    InterferenceOptions,
    ManyArraysOptions,
    MemoryGrowthOptions,
    SlowWorkerOptions,
    StorageFaultsOptions,
)
from runtime.contract.options_training import TrainingOptions, TransformerOptions

OURS: tuple[Generator, ...] = (
    ours("training.Training", TrainingOptions, resumes=True, own_data=True, known_by=("train_step*",)),
    ours(
        "transformer.TransformerTraining",
        TransformerOptions,
        resumes=True,
        own_data=True,
        known_by=("train_step*",),
    ),
    ours("reference.Reference", ReferenceOptions, data="needed", prepares=True),
    ours("interference.Interference", InterferenceOptions, data="unused", known_by=("train_step*",)),
    ours(
        "many_arrays.ManyArrays", ManyArraysOptions, data="unused", when={"use_colocated_python": "pathways"}
    ),
    ours("memory_growth.MemoryGrowth", MemoryGrowthOptions, data="needed"),
    ours(
        "garbage_collection.GarbageCollection",
        GarbageCollectionOptions,
        data="needed",
        known_by=("save_and_delete",),
    ),
    ours("first_save.FirstSave", FirstSaveOptions, data="needed", known_by=("first_*",)),
    ours(
        "slow_worker.SlowWorker",
        SlowWorkerOptions,
        data="needed",
        workers=2,
        known_by=("*_with_slow_worker",),
    ),
    ours("storage_faults.StorageFaults", StorageFaultsOptions, data="needed", known_by=("*_undisturbed",)),
)
