"""Loads a checkpoint that is there, Orbax's own or one of safetensors files, and compares digests of what came."""

from __future__ import annotations

import abc
from typing import Any

import jax
import orbax.checkpoint as orbax
from etils import epath
from orbax.checkpoint import v1 as ocp

from runtime import folders, pytree
from runtime.benchmarks import digests, references
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.v1_settings import bytes_of
from runtime.contract.options_references import LoadOptions, OrbaxLoadOptions, SafetensorLoadOptions

MIB = 1024**2


class _Load(Benchmark):
    """Operation: `load`, with `checkpoint_files` and `checkpoint_bytes` beside it.

    Digests are captured, or compared with; that there are none to compare with is a failure. Where neither is asked
    for, every repeat must load what a load with other shardings gives.
    """

    options: LoadOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._known = references.Known()

    @abc.abstractmethod
    def settings(self) -> ocp.Context:
        """Returns Orbax's settings for the load."""

    def run(self, context: Context) -> None:
        given = self.options
        path = given.checkpoint_path
        assert path is not None
        with ocp.Context(context=self.settings()):
            if given.sharding_config_path is not None:
                target = references.target_of(path, given.sharding_config_path)
            else:
                target = _on_every_device(references.metadata_of(path))
            with context.measure("load", payload_bytes=pytree.held_bytes(target)):
                loaded = references.load(path, target)
            if given.capture_digests_path is not None:
                digests.capture(given.capture_digests_path, loaded)
            elif given.reference_digests_path is not None:
                digests.compare(given.reference_digests_path, loaded)
            else:
                self._known.check(path, target, loaded)
        pytree.free(loaded)
        if jax.process_index() == 0:
            files, size = folders.contents(epath.Path(path))
            context.value("load", "checkpoint_files", files, "count")
            context.value("load", "checkpoint_bytes", size, "bytes")


class OrbaxLoad(_Load):
    """A checkpoint of Orbax's."""

    options_class = OrbaxLoadOptions
    options: OrbaxLoadOptions

    def settings(self) -> ocp.Context:
        settings = ocp.Context()
        settings.array.loading.use_load_and_broadcast = self.options.use_load_and_broadcast
        settings.memory.read_concurrent_bytes = bytes_of(self.options.restore_concurrent_gb)
        if self.options.use_colocated_python:
            settings.pathways.checkpointing_impl = orbax.pathways.CheckpointingImpl.from_options(
                use_colocated_python=True
            )
        return settings


class SafetensorLoad(_Load):
    """A checkpoint of safetensors files, as Hugging Face ships them."""

    options_class = SafetensorLoadOptions
    options: SafetensorLoadOptions

    def settings(self) -> ocp.Context:
        given = self.options
        chunk = given.safetensors_read_chunk_mb
        settings = ocp.Context(
            checkpoint_layout=ocp.options.CheckpointLayout.SAFETENSORS,
            safetensors_options=ocp.options.SafetensorsOptions(
                max_over_read_ratio=given.safetensors_max_over_read_ratio,
                read_chunk_bytes=None if chunk is None else chunk * MIB,
            ),
        )
        settings.array.loading.use_load_and_broadcast = given.use_load_and_broadcast
        settings.memory.read_concurrent_bytes = bytes_of(given.restore_concurrent_gb)
        return settings


def _on_every_device(metadata: Any) -> pytree.Tree:
    """Returns what a checkpoint holds, each array whole on every device."""
    mesh = jax.sharding.Mesh(jax.devices(), ("data",))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=whole), metadata)
