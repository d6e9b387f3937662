"""A small real transformer on generated tokens: a decoder with causal attention, its layers one scan.

On a mesh, the axis named `model` shares heads, hidden units and vocabulary; all other axes together are `data`: they
share the batch, and of each matrix the side that `model` does not, as fully sharded training does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MODEL = "model"
_HIDDEN = 4
_STRIDES = 8
"""Rows count on in strides from 1 to so many: which one, only the tokens before tell."""

_ODD = (np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35))

Weights = dict[str, jax.Array]


@dataclass(frozen=True)
class Transformer:
    """`width` is shared by `heads`; a sequence has `sequence` tokens out of `vocabulary`; `batch`: sequences for each
    part of the data.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int
    sequence: int
    batch: int

    def begin(self, seed: jax.Array) -> Weights:
        """Returns the weights before the first step."""
        weights = {
            name: (_scattered(seed, number, shape).astype(jnp.float32) / 2.0**31 - 1)
            * math.sqrt(3 / shape[-2])
            for number, (name, shape) in enumerate(self._matrices().items())
        }
        for name in ("tokens", "places"):  # which are looked up, not multiplied with
            weights[name] *= math.sqrt(weights[name].shape[0] / self.width)
        norms = {name: jnp.ones((self.layers, self.width), jnp.float32) for name in ("norm_in", "norm_up")}
        return {**weights, **norms, "norm_out": jnp.ones((self.width,), jnp.float32)}

    def placed(self, mesh: Mesh) -> dict[str, PartitionSpec]:
        """Returns how each of the weights lies on a mesh. Raises ValueError when that cannot be shared evenly."""
        parts, data = mesh.shape.get(MODEL, 1), _data(mesh)
        for what, number, by in (
            ("width", self.width, mesh.size // parts),
            ("heads", self.heads, parts),
            ("vocabulary", self.vocabulary, parts),
        ):
            if number % by:
                raise ValueError(f"{what} {number} cannot be shared evenly by {by} parts of the mesh")
        model = MODEL if MODEL in mesh.axis_names else None
        inward, outward = PartitionSpec(None, data, model), PartitionSpec(None, model, data)
        return {
            "tokens": PartitionSpec(model, data),
            "places": PartitionSpec(None, data),
            **dict.fromkeys(("query", "key", "value", "up"), inward),
            **dict.fromkeys(("out", "down"), outward),
            "logits": PartitionSpec(data, model),
            **dict.fromkeys(("norm_in", "norm_up", "norm_out"), PartitionSpec()),
        }

    def loss(self, weights: Weights, seed: jax.Array, step: jax.Array, mesh: Mesh) -> jax.Array:
        """Returns the cross-entropy of each next token, on an average; of one that knows nothing, the logarithm of the
        vocabulary.
        """
        rows = self.batch * (mesh.size // mesh.shape.get(MODEL, 1))
        tokens = _tokens(seed, step, (rows, self.sequence + 1), self.vocabulary)
        parted = NamedSharding(mesh, PartitionSpec(_data(mesh)))
        tokens = jax.lax.with_sharding_constraint(tokens, parted)
        told = weights["tokens"][tokens[:, :-1]] + weights["places"]
        told = jax.lax.with_sharding_constraint(told, parted)
        repeated = {name: array for name, array in weights.items() if name not in _ONCE}
        told, _ = jax.lax.scan(lambda before, one: (self._layer(before, one), None), told, repeated)
        logits = _normed(told, weights["norm_out"]) @ weights["logits"]
        right = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - right)

    def _layer(self, told: jax.Array, one: Weights) -> jax.Array:
        apart = (*told.shape[:2], self.heads, self.width // self.heads)
        normed = _normed(told, one["norm_in"])
        query, key, value = (jnp.reshape(normed @ one[name], apart) for name in ("query", "key", "value"))
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(apart[-1])
        before = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        shares = jax.nn.softmax(jnp.where(before, scores, -jnp.inf), axis=-1)
        heard = jnp.reshape(jnp.einsum("bhqk,bkhd->bqhd", shares, value), told.shape)
        told = told + heard @ one["out"]
        return told + jax.nn.relu(_normed(told, one["norm_up"]) @ one["up"]) @ one["down"]

    def _matrices(self) -> dict[str, tuple[int, ...]]:
        square = (self.layers, self.width, self.width)
        return {
            "tokens": (self.vocabulary, self.width),
            "places": (self.sequence, self.width),
            **dict.fromkeys(("query", "key", "value", "out"), square),
            "up": (self.layers, self.width, _HIDDEN * self.width),
            "down": (self.layers, _HIDDEN * self.width, self.width),
            "logits": (self.width, self.vocabulary),
        }


_ONCE = ("tokens", "places", "logits", "norm_out")
"""Weights that are no layer's."""


def _data(mesh: Mesh) -> tuple[str, ...]:
    return tuple(str(axis) for axis in mesh.axis_names if axis != MODEL)


def _tokens(seed: jax.Array, step: jax.Array, shape: tuple[int, int], vocabulary: int) -> jax.Array:
    """Returns rows of tokens that count on, each from a beginning and in a stride of its own."""
    drawn = (
        _scattered(seed ^ (_ODD[0] * (step.astype(jnp.uint32) + 1)), 0, (shape[0], 2)).astype(jnp.int32)
        & 0x3FFFFFFF
    )
    begins, strides = drawn[:, :1] % vocabulary, 1 + drawn[:, 1:] % min(_STRIDES, vocabulary - 1)
    return (begins + strides * jnp.arange(shape[1], dtype=jnp.int32)) % vocabulary


def _scattered(seed: jax.Array, number: int, shape: tuple[int, ...]) -> jax.Array:
    """Returns 32 bits for each place of an array, the same however it is parted, that look as if drawn by lot.

    JAX's own generators are better ones, and take longer to compile than all of the training.
    """
    bits: jax.Array = seed.astype(jnp.uint32) + jnp.uint32(number)
    for axis in range(len(shape)):
        bits = bits * _ODD[0] ^ jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
        bits = (bits ^ bits >> 16) * _ODD[1]
        bits = (bits ^ bits >> 13) * _ODD[2]
        bits = bits ^ bits >> 16
    return bits


def _normed(told: jax.Array, scale: jax.Array) -> jax.Array:
    size: jax.Array = jax.lax.rsqrt(jnp.mean(told**2, axis=-1, keepdims=True) + 1e-6)
    return told * size * scale
