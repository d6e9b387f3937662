"""Sends the arrays of one replica to all others, over the network between slices: no storage is in it."""

from __future__ import annotations

import jax
import numpy as np

from runtime import pytree
from runtime.benchmarks import replicas
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options_replicas import MultisliceBroadcastOptions

_AT_ONCE_BYTES = 1 << 30
"""As much is sent in one go: as in Orbax's benchmark of this name."""


class MultisliceBroadcast(Benchmark):
    """Operations: `process_spans_multiple_replicas`, `broadcast_array` with the number of `broadcasts` it took."""

    options_class = MultisliceBroadcastOptions
    options: MultisliceBroadcastOptions

    def run(self, context: Context) -> None:
        from orbax.checkpoint._src.multihost import multislice

        axis = self.options.replica_axis_index
        mesh = replicas.replicated_mesh(context, axis)
        replicas.arrays_only(context)
        with replicas.numbered(by_distributed_id=True):
            with context.measure("process_spans_multiple_replicas"):
                spans = multislice.process_spans_multiple_replicas(mesh, replica_axis_index=axis)
            if spans:
                raise ValueError("workers hold devices of several replicas: nothing would be sent")
            is_source = replicas.is_in(mesh, axis, 0)
            leaves, structure = jax.tree.flatten(context.tree)
            own = replicas.own_replica(mesh, axis)
            held = pytree.held_bytes(context.tree)
            sources = tuple(_of_replica(leaf, own, is_source) for leaf in leaves)
            jax.block_until_ready(sources)
            pytree.free(context.tree)
            with context.measure("broadcast_array", payload_bytes=held):
                sent, broadcasts = multislice.broadcast_one_replica_to_all(
                    sources,
                    mesh,
                    replica_axis_index=axis,
                    is_source=is_source,
                    memory_limit_bytes=_AT_ONCE_BYTES,
                )
                jax.block_until_ready(sent)
        context.value("broadcast_array", "broadcasts", broadcasts, "count")
        received = jax.tree.unflatten(structure, sent)
        context.verify(received, same_sharding=False)
        pytree.free(received)


def _of_replica(array: jax.Array, own: jax.sharding.Mesh, is_source: bool) -> jax.Array:
    """Returns the array as this process's replica holds it: the data in the first, elsewhere zeros.

    A copy: what is broadcast is gone afterwards.
    """
    assert isinstance(array.sharding, jax.sharding.NamedSharding)  # a point with a mesh has no others
    sharding = jax.sharding.NamedSharding(own, array.sharding.spec)
    if not is_source:
        part = np.zeros(sharding.shard_shape(array.shape), array.dtype)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: part)
    wanted = sharding.addressable_devices
    parts = [shard.data.copy() for shard in array.addressable_shards if shard.device in wanted]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, parts)
