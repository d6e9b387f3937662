"""Loads a checkpoint into other shardings than it was saved with: what restarting on other hardware costs."""

from __future__ import annotations

from typing import Any

from orbax.checkpoint import v1 as ocp

from runtime import pytree
from runtime.benchmarks import references
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.v1_settings import settings_of
from runtime.contract.options_references import ReshardingOptions


class Resharding(Benchmark):
    """Operation: `load`. The checkpoint is any that is there, or one that `reference.Reference` made before."""

    options_class = ReshardingOptions
    options: ReshardingOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._known = references.Known()

    def run(self, context: Context) -> None:
        path, shardings = self.options.reference_checkpoint_path, self.options.reference_sharding_path
        assert path is not None and shardings is not None
        with ocp.Context(context=settings_of(self.options)):
            target = references.target_of(path, shardings)
            with context.measure("load", payload_bytes=pytree.held_bytes(target)):
                loaded = references.load(path, target)
            self._known.check(path, target, loaded)
            pytree.free(loaded)
