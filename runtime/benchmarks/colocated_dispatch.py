"""Sends functions to the hosts of the devices (colocated Python): what a dispatch costs beside the call itself."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.options_replicas import DispatchOptions
from runtime.verify import NotEqual

ARRAY = "array"
"""The leaf whose devices are asked; the point's tree must have it."""


class ColocatedDispatch(Benchmark):
    """Operations: `dispatch_without_result_specs`, `dispatch_with_dummy_result_array`, each with a
    `…_block_until_ready` of its own, and `dispatch_with_result_specs`, whose result must be what the function makes.

    Without `use_colocated` the functions are called here: the difference is the cost of the dispatch. Orbax's benchmark
    of this name has no way to do that and fails.
    """

    options_class = DispatchOptions
    options: DispatchOptions

    def run(self, context: Context) -> None:
        from orbax.checkpoint._src.multihost import dispatchers

        array = context.tree[ARRAY]
        dispatch = dispatchers.ColocatedPythonDispatcher().dispatch if self.options.use_colocated else _here
        with context.measure("dispatch_without_result_specs"):
            done = dispatch(_look, input_arrays=array, func_kwargs={"metadata": {"shape": array.shape}})
        with context.measure("dispatch_without_result_specs_block_until_ready"):
            jax.block_until_ready(done)
        devices = jax.devices()[: self.options.device_count]
        with context.measure("dispatch_with_dummy_result_array"):
            dummy = dispatchers.get_dummy_input_array(devices)
            done = dispatch(_nothing, input_arrays=dummy)
        with context.measure("dispatch_with_dummy_result_array_block_until_ready"):
            jax.block_until_ready(done)
        wanted = jax.ShapeDtypeStruct(array.shape, jnp.float32, sharding=array.sharding)
        with context.measure("dispatch_with_result_specs"):
            made = dispatch(
                _ones, input_arrays=array, result_specs=wanted, func_args=(array.shape, array.sharding)
            )
            jax.block_until_ready(made)
        _check(made, wanted)


def _here(
    function: Any,
    *,
    input_arrays: Any,
    result_specs: Any = None,
    func_args: tuple[Any, ...] = (),
    func_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Calls the function in this process, as a dispatcher would elsewhere."""
    result = function(input_arrays, *func_args, **(func_kwargs or {}))
    return input_arrays if result_specs is None else result


def _look(array: jax.Array, metadata: dict[str, Any]) -> None:
    if tuple(array.shape) != tuple(metadata["shape"]):
        raise ValueError(f"shape {array.shape} arrived for {metadata['shape']}")


def _nothing(array: jax.Array) -> None:
    """Only the way there and back is of interest."""


def _ones(array: jax.Array, shape: tuple[int, ...], sharding: jax.sharding.Sharding) -> jax.Array:
    part = np.ones(sharding.shard_shape(shape), np.float32)
    return jax.make_array_from_callback(shape, array.sharding, lambda index: part)


def _check(made: jax.Array, wanted: jax.ShapeDtypeStruct) -> None:
    if (made.shape, made.dtype) != (wanted.shape, wanted.dtype):
        raise NotEqual(f"{made.dtype}{list(made.shape)} came back for {wanted.dtype}{list(wanted.shape)}")
    for shard in made.addressable_shards:
        if not np.all(np.asarray(shard.data) == 1):
            raise NotEqual(f"the part on {shard.device} is not what the function made")
