"""A small model that really trains: layers of weights with Adam, spread over all devices of a mesh.

Each device holds its part of every array and its part of every batch, so a step gathers weights and scatters gradients
as large training does. What a step computes follows from its number alone: whoever goes on from a checkpoint computes
what would have been computed without the break.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

State = dict[str, Any]
"""`step`: how many were done; `weights`, `mean` and `square` (Adam's) by layer."""

_RATE, _DECAY, _SQUARE_DECAY, _TINY = 1e-3, 0.9, 0.999, 1e-8
_ROW, _COLUMN = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)


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
    """What is compiled for a model of `layers` layers, `width` wide, and batches of `batch` rows for each device."""

    def __init__(self, layers: int, width: int, batch: int, mesh: jax.sharding.Mesh) -> None:
        """Raises ValueError when the devices cannot share the width evenly."""
        devices = math.prod(mesh.devices.shape)
        if width % devices:
            raise ValueError(f"width {width} cannot be shared evenly by {devices} devices")
        self._rows, self._width = batch * devices, width
        whole = NamedSharding(mesh, PartitionSpec())
        self._parted = NamedSharding(mesh, PartitionSpec(tuple(mesh.axis_names)))
        shapes = {f"layer_{number}": (width, width) for number in range(layers)}
        shardings = {
            "step": whole,
            **{part: dict.fromkeys(shapes, self._parted) for part in ("weights", "mean", "square")},
        }
        self.first = jax.jit(lambda seed: _begin(shapes, seed), out_shardings=shardings)
        # In hosts' memory what is saved in the background is the array itself, and must not be written over.
        donated = () if mesh.devices.flat[0].platform == "cpu" else (0,)
        self.next = jax.jit(self._step, donate_argnums=donated, out_shardings=(shardings, whole))
        self.sums = jax.jit(lambda state: jax.tree.map(_sum, state), out_shardings=whole)
        self.abstract: State = jax.tree.map(
            lambda array, sharding: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding),
            jax.eval_shape(self.first, np.uint32(0)),
            shardings,
        )

    def _step(self, state: State, seed: jax.Array) -> tuple[State, jax.Array]:
        key = jax.random.fold_in(jax.random.key(seed), state["step"])
        rows = jax.random.normal(key, (self._rows, self._width), jnp.float32)
        rows = jax.lax.with_sharding_constraint(rows, self._parted)
        loss, slopes = jax.value_and_grad(_loss)(state["weights"], rows)
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
def programs(layers: int, width: int, batch: int, mesh: jax.sharding.Mesh | None) -> Programs:
    """Returns the programs of such models, made once. Without a mesh all devices are one axis. Raises ValueError."""
    mesh = mesh or jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    return Programs(layers, width, batch, mesh)


def _begin(shapes: Mapping[str, tuple[int, int]], seed: jax.Array) -> State:
    keys = jax.random.split(jax.random.key(seed + 1), len(shapes))
    weights = {
        name: jax.random.normal(key, shape, jnp.float32) / math.sqrt(shape[0])
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    nothing = {name: jnp.zeros(shape, jnp.float32) for name, shape in shapes.items()}
    return {"step": jnp.int32(0), "weights": weights, "mean": nothing, "square": nothing}


def _loss(weights: Mapping[str, jax.Array], rows: jax.Array) -> jax.Array:
    """How far the model is from a smooth function of its input."""
    told = rows
    for name in sorted(weights):
        told = jnp.tanh(told @ weights[name])
    return jnp.mean((told - jnp.sin(rows)) ** 2)


def _sum(array: jax.Array) -> jax.Array:
    bits = jax.lax.bitcast_convert_type(array, jnp.uint32)
    places = jnp.uint32(1)
    for axis, factor in zip(range(bits.ndim), (_ROW, _COLUMN), strict=False):
        places = places + factor * jax.lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
    return jnp.sum(bits * (2 * places + 1), dtype=jnp.uint32)
