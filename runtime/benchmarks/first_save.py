"""Saves once after all compiled programs were forgotten, and then again: what does a process pay for its first save?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import jax
import orbax.checkpoint as ocp
from etils import epath
from jax.experimental.compilation_cache import compilation_cache

from runtime import folders, pytree
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.pytree_checkpoint import registry
from runtime.contract.options import PyTreeCheckpointOptions
from runtime.contract.options_strains import FirstSaveOptions


class FirstSave(Benchmark):
    """Operations: `first_save`, then `save` so many times, each until it is complete; `first_restore`, `restore`. How
    many programs each compiled stands beside it (`jax/core/compile/backend_compile_count`).

    No cache of compiled programs on disk is read meanwhile: this is the process that has none yet. With
    `cached_on_disk` there is one, which a save and a restore have filled before: what was fetched from it stands beside
    (`jax/compilation_cache/cache_hits_count`).
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
        cache = context.path / "programs" if given.cached_on_disk else None
        with _only(cache) as forget, contextlib.closing(ocp.Checkpointer(handler)) as checkpointer:
            if cache is not None:
                forget()
                checkpointer.save(context.path / "filling", args=ocp.args.PyTreeSave(context.tree))
                pytree.free(checkpointer.restore(context.path / "filling", args=wanted))
            forget()
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
def _only(cache: epath.Path | None) -> Iterator[Callable[[], None]]:
    """Keeps JAX from looking for compiled programs anywhere on disk but in `cache`, which takes all of them, while
    inside. Yields what lets it forget those in memory.
    """
    wanted = {
        "jax_enable_compilation_cache": cache is not None,
        "jax_compilation_cache_dir": None if cache is None else str(cache),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: jax.config.values[name] for name in wanted}
    for name, value in wanted.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    try:
        yield jax.clear_caches
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
    if cache is not None:  # after a failure not all would meet here; then it goes with the repeat's folder
        ocp.multihost.sync_global_processes("programs_cached")
        if jax.process_index() == 0:
            folders.remove(cache)  # it is no part of the checkpoints
            folders.remove(cache.parent / "filling")
