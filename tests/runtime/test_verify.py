"""A difference of one bit is found, named and placed; equal NaNs are equal."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runtime import pytree, verify
from runtime.contract.suite import ArraySpec

SPEC = {"step": "int", "layer": {"w": ArraySpec("float32", (4, 6)), "b": ArraySpec("bfloat16", (3,))}}


def made() -> Any:
    return pytree.generate(SPEC, "5", None)


@pytest.fixture(params=["computed", "digested"])
def expected(request: pytest.FixtureRequest) -> verify.Expectation:
    return verify.expect(made(), SPEC if request.param == "computed" else None, "5")


def changed(path: tuple[str, ...], value: Any) -> Any:
    tree = made()
    node = tree
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = value
    return tree


def test_what_was_saved_passes(expected: verify.Expectation) -> None:
    verify.check(expected, made())


def test_one_bit_is_found_and_its_leaf_named(expected: verify.Expectation) -> None:
    bits = np.asarray(made()["layer"]["w"]).copy()
    bits.view(np.uint32)[2, 3] ^= 1
    with pytest.raises(verify.NotEqual, match=r"layer\.w"):
        verify.check(expected, changed(("layer", "w"), jnp.asarray(bits)))


def test_computed_data_tell_the_element() -> None:
    bits = np.asarray(made()["layer"]["w"]).copy()
    bits.view(np.uint32)[2, 3] ^= 1
    bits.view(np.uint32)[3, 5] ^= 1
    with pytest.raises(verify.NotEqual, match=r"element \[2, 3\].*2 of 24 elements"):
        verify.check(verify.expect(made(), SPEC, "5"), changed(("layer", "w"), jnp.asarray(bits)))


def test_data_of_another_repeat_does_not_pass(expected: verify.Expectation) -> None:
    with pytest.raises(verify.NotEqual, match="layer"):
        verify.check(expected, pytree.generate(SPEC, "6", None))


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("step",), 1, r"step.*1 came back for 0"),
        (("layer", "w"), lambda: jnp.zeros((4, 5)), r"shape \(4, 5\)"),
        (("layer", "w"), lambda: jnp.zeros((4, 6), jnp.bfloat16), "dtype bfloat16"),
        (("layer", "w"), np.zeros((4, 6), np.float32), "ndarray came back"),
        (("layer", "extra"), 1, r"beyond what was saved.*layer\.extra"),
    ],
)
def test_what_is_otherwise_wrong_is_told(
    expected: verify.Expectation, path: tuple[str, ...], value: Any, reason: str
) -> None:
    with pytest.raises(verify.NotEqual, match=reason):
        verify.check(expected, changed(path, value() if callable(value) else value))


def test_a_missing_leaf_is_named(expected: verify.Expectation) -> None:
    tree = made()
    del tree["layer"]["b"]
    with pytest.raises(verify.NotEqual, match=r"lacks layer\.b"):
        verify.check(expected, tree)


def test_numbers_that_came_back_as_arrays_count_by_value(expected: verify.Expectation) -> None:
    verify.check(expected, changed(("step",), np.int64(0)))


def test_nan_equals_the_same_nan_and_zero_is_not_minus_zero() -> None:
    tree = {"x": jnp.asarray([np.nan, 0.0], jnp.float32)}
    expectation = verify.expect(tree, None, "")
    verify.check(expectation, {"x": jnp.asarray([np.nan, 0.0], jnp.float32)})
    with pytest.raises(verify.NotEqual):
        verify.check(expectation, {"x": jnp.asarray([np.nan, -0.0], jnp.float32)})


def test_another_sharding_is_told_unless_it_was_asked_for() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
    spec = {"w": ArraySpec("float32", (4,), ("data",))}
    expectation = verify.expect(pytree.generate(spec, "0", mesh), spec, "0")
    elsewhere = pytree.generate({"w": ArraySpec("float32", (4,))}, "0", mesh)
    with pytest.raises(verify.NotEqual, match="sharding"):
        verify.check(expectation, elsewhere)
    verify.check(expectation, elsewhere, same_sharding=False)


def test_copies_that_differ_between_devices_are_found() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
    spec = {"w": ArraySpec("float32", (4,))}
    good = pytree.generate(spec, "0", mesh)["w"]
    parts = [jnp.asarray(good.addressable_shards[0].data), jnp.zeros(4, jnp.float32)]
    torn = jax.make_array_from_single_device_arrays(
        (4,), good.sharding, [jax.device_put(part, d) for part, d in zip(parts, mesh.devices, strict=True)]
    )
    with pytest.raises(verify.NotEqual, match="device"):
        verify.check(verify.expect({"w": good}, spec, "0"), {"w": torn})
