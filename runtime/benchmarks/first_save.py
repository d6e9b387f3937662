"""Saves once after all compiled programs were forgotten, and then again: what does a process pay for its first save?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
import orbax.checkpoint as ocp

from runtime import pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.pytree_checkpoint import registry
from runtime.contract.options import PyTreeCheckpointOptions
from runtime.contract.options_strains import FirstSaveOptions


class FirstSave(Benchmark):
    """Operations: `first_save`, then `save` so many times, each until it is complete; `first_restore`, `restore`. How
    many programs each compiled stands beside it (`jax/core/compile/backend_compile_count`).

    A cache of compiled programs on disk is not read meanwhile: this is the process that has none yet.
    """

    options_class = FirstSaveOptions
    options: FirstSaveOptions

    def run(self, context: Context) -> None:
        given, target = self.options, pytree.abstract(context.tree)
        saved, held = pytree.saved_bytes(context.tree), pytree.held_bytes(context.tree)
        handlers = registry(PyTreeCheckpointOptions(use_replica_parallel=given.use_replica_parallel))
        handler = ocp.PyTreeCheckpointHandler(type_handler_registry=handlers)
        wanted = ocp.args.PyTreeRestore(
            item=target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
        )
        with _without_caches(), contextlib.closing(ocp.Checkpointer(handler)) as checkpointer:
            for number in range(given.saves + 1):
                with context.measure("save" if number else "first_save", payload_bytes=saved):
                    checkpointer.save(context.path / str(number), args=ocp.args.PyTreeSave(context.tree))
            pytree.free(context.tree)
            for number in range(2):
                with context.measure("restore" if number else "first_restore", payload_bytes=held):
                    restored = checkpointer.restore(context.path / str(number), args=wanted)
                    jax.block_until_ready(restored)
                context.verify(restored)
                pytree.free(restored)


@contextlib.contextmanager
def _without_caches() -> Iterator[None]:
    """Forgets what was compiled, and keeps JAX from looking for it on disk while inside."""
    before = jax.config.values["jax_enable_compilation_cache"]
    jax.config.update("jax_enable_compilation_cache", False)
    jax.clear_caches()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
