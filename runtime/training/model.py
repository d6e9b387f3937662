"""Training of a model with Adam, spread over all devices of a mesh.

Each device holds its part of every array and its part of every batch, so a step gathers weights and scatters gradients
as large training does. What a step computes follows from its number alone: whoever goes on from a checkpoint computes
what would have been computed without the break.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

State = dict[str, Any]
"""`step`: how many were done; `weights`, `mean` and `square` (Adam's), each as the model has its weights."""

_RATE, _DECAY, _SQUARE_DECAY, _TINY = 1e-3, 0.9, 0.999, 1e-8
_BY_AXIS = tuple(np.uint32(odd) for odd in (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F))


class Model(Protocol):
    """What is trained: equal ones share what is compiled for them. Weights are arrays in dicts, in whatever depth."""

    def __hash__(self) -> int: ...

    def begin(self, seed: jax.Array) -> Any:
        """Returns the weights before the first step."""

    def placed(self, mesh: jax.sharding.Mesh) -> Any:
        """Returns how each of the weights lies on a mesh. Raises ValueError when that cannot be shared evenly."""

    def loss(self, weights: Any, seed: jax.Array, step: jax.Array, mesh: jax.sharding.Mesh) -> jax.Array:
        """Returns how far the weights are from what they should say of the data of a step."""


class Trainer:
    """Trains a model that begins with `seed`."""

    def __init__(self, programs: Programs, seed: int) -> None:
        """Models of one shape share their programs: no repeat compiles what one before did."""
        self._programs, self._seed = programs, np.uint32(seed)
        self.abstract = programs.abstract

    def begin(self) -> State:
        """Returns the state before the first step."""
        state: State = self._programs.first(self._seed)
        return state

    def step(self, state: State) -> tuple[State, jax.Array]:
        """Does a step; returns the next state and the loss. The state that was given may be gone."""
        after: tuple[State, jax.Array] = self._programs.next(state, self._seed)
        return after

    def checksum(self, state: State) -> dict[str, int]:
        """Returns a number for each array that another content would not give, however its parts lie: sums of its bits
        by their places, which come out the same in any order.
        """
        sums, _ = jax.tree_util.tree_flatten_with_path(self._programs.sums(state))
        return {jax.tree_util.keystr(path, simple=True, separator="."): int(one) for path, one in sums}


class Programs:
    """What is compiled for a model on a mesh."""

    def __init__(self, model: Model, mesh: jax.sharding.Mesh) -> None:
        """Raises ValueError when the devices cannot share the model evenly."""
        self._model, self._mesh = model, mesh
        whole = NamedSharding(mesh, PartitionSpec())
        placed = jax.tree.map(
            lambda spec: NamedSharding(mesh, spec),
            model.placed(mesh),
            is_leaf=lambda one: isinstance(one, PartitionSpec),
        )
        shardings = {"step": whole, "weights": placed, "mean": placed, "square": placed}
        self.first = jax.jit(self._begin, out_shardings=shardings)
        # In hosts' memory what is saved in the background is the array itself, and must not be written over.
        donated = () if mesh.devices.flat[0].platform == "cpu" else (0,)
        self.next = jax.jit(self._step, donate_argnums=donated, out_shardings=(shardings, whole))
        self.sums = jax.jit(lambda state: jax.tree.map(_sum, state), out_shardings=whole)
        self.abstract: State = jax.tree.map(
            lambda array, sharding: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding),
            jax.eval_shape(self.first, np.uint32(0)),
            shardings,
        )

    def _begin(self, seed: jax.Array) -> State:
        weights = self._model.begin(seed)
        nothing = jax.tree.map(jnp.zeros_like, weights)
        return {"step": jnp.int32(0), "weights": weights, "mean": nothing, "square": nothing}

    def _step(self, state: State, seed: jax.Array) -> tuple[State, jax.Array]:
        loss, slopes = jax.value_and_grad(self._model.loss)(state["weights"], seed, state["step"], self._mesh)
        step = state["step"] + 1
        mean = jax.tree.map(lambda old, new: _DECAY * old + (1 - _DECAY) * new, state["mean"], slopes)
        square = jax.tree.map(
            lambda old, new: _SQUARE_DECAY * old + (1 - _SQUARE_DECAY) * new**2, state["square"], slopes
        )
        done = step.astype(jnp.float32)  # else the rate, and so the state, would be wider where JAX allows it
        rate = _RATE * jnp.sqrt(1 - _SQUARE_DECAY**done) / (1 - _DECAY**done)
        weights = jax.tree.map(
            lambda weight, first, second: weight - rate * first / (jnp.sqrt(second) + _TINY),
            state["weights"],
            mean,
            square,
        )
        return {"step": step, "weights": weights, "mean": mean, "square": square}, loss


@functools.lru_cache(maxsize=4)
def programs(model: Model, mesh: jax.sharding.Mesh | None) -> Programs:
    """Returns the programs of such a model, made once. Without a mesh all devices are one axis. Raises ValueError."""
    return Programs(model, mesh or jax.sharding.Mesh(np.array(jax.devices()), ("data",)))


def _sum(array: jax.Array) -> jax.Array:
    bits = jax.lax.bitcast_convert_type(array, jnp.uint32)
    places = jnp.uint32(1)
    for axis, factor in zip(range(bits.ndim), _BY_AXIS, strict=False):
        places = places + factor * jax.lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
    return jnp.sum(bits * (2 * places + 1), dtype=jnp.uint32)
