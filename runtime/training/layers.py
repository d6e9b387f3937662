"""The smallest model that trains: layers of square weights that learn a smooth function of their input."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Weights = dict[str, jax.Array]


@dataclass(frozen=True)
class Layers:
    """`layers` layers, `width` wide; batches of `batch` rows for each device."""

    layers: int
    width: int
    batch: int

    def begin(self, seed: jax.Array) -> Weights:
        """Returns the weights before the first step."""
        keys = jax.random.split(jax.random.key(seed + 1), self.layers)
        return {
            f"layer_{number}": jax.random.normal(one, (self.width, self.width), jnp.float32)
            / math.sqrt(self.width)
            for number, one in enumerate(keys)
        }

    def placed(self, mesh: Mesh) -> dict[str, PartitionSpec]:
        """Returns how each of the weights lies on a mesh: its rows over all devices. Raises ValueError."""
        if self.width % mesh.size:
            raise ValueError(f"width {self.width} cannot be shared evenly by {mesh.size} devices")
        return dict.fromkeys((f"layer_{number}" for number in range(self.layers)), _parted(mesh))

    def loss(self, weights: Weights, seed: jax.Array, step: jax.Array, mesh: Mesh) -> jax.Array:
        """Returns how far the model is from a smooth function of its input."""
        key = jax.random.fold_in(jax.random.key(seed), step)
        rows = jax.random.normal(key, (self.batch * mesh.size, self.width), jnp.float32)
        rows = jax.lax.with_sharding_constraint(rows, NamedSharding(mesh, _parted(mesh)))
        told = rows
        for name in sorted(weights):
            told = jnp.tanh(told @ weights[name])
        return jnp.mean((told - jnp.sin(rows)) ** 2)


def _parted(mesh: Mesh) -> PartitionSpec:
    return PartitionSpec(tuple(mesh.axis_names))
