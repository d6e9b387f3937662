"""Generated elements depend on seed, leaf and position alone, whichever part is asked for."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime import content
from runtime.content import Content

FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (4, 8, 16, 32, 64)]
DTYPES = [*FLOATS, *INTEGERS, "bool_", "complex64", "complex128"]


def whole(source: Content) -> np.ndarray:
    return source.part(tuple(slice(None) for _ in source.shape))


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_made_finite_and_varied(name: str) -> None:
    made = whole(Content("0", "a", (16, 64), jnp.dtype(getattr(jnp, name))))
    assert made.dtype == jnp.dtype(getattr(jnp, name))
    assert len(set(made.reshape(-1).tolist())) > (1 if name == "bool_" else 3)
    if made.dtype.kind not in "biu":
        assert np.isfinite(made.astype(np.complex128)).all()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_part_is_the_same_alone_as_in_the_whole(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 9), max_size=4))
    source = Content("7", "w", shape, np.dtype(np.float32))
    index = []
    for size in shape:
        start = data.draw(st.integers(0, size))
        index.append(slice(start, data.draw(st.integers(start, size))))
    np.testing.assert_array_equal(source.part(tuple(index)), whole(source)[tuple(index)])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(1, 40))
def test_cutting_into_chunks_changes_nothing(shape: list[int], chunk: int) -> None:
    source = Content("7", "w", shape, np.dtype(np.int64))
    at_once = whole(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "_CHUNK", chunk)
        np.testing.assert_array_equal(whole(source), at_once)


def test_seed_and_leaf_select_different_data() -> None:
    made = [whole(Content(seed, leaf, (64,), np.dtype(np.float32))) for seed in "01" for leaf in "ab"]
    for i, one in enumerate(made):
        for other in made[i + 1 :]:
            assert not (one == other).any()


def test_the_content_is_pinned() -> None:
    """Generated data may not change between versions: their histories would not be comparable."""
    made = whole(Content("0/0", "layer.w", (3,), np.dtype(np.float64)))
    assert made.tolist() == [-0.09700128094165511, -1.7197596413872325, -1.1591224372977376]


def test_values_are_as_wide_as_the_array_is_large() -> None:
    made = whole(Content("0", "a", (100, 100), np.dtype(np.float64)))
    assert -10_000 <= made.min() < -9_900 and 9_900 < made.max() <= 10_000
    assert abs(made.mean()) < 300


def test_small_floats_stay_within_their_range() -> None:
    made = whole(Content("0", "a", (1000, 1000), np.dtype(ml_dtypes.float8_e4m3fn)))
    assert np.isfinite(made.astype(np.float32)).all()
