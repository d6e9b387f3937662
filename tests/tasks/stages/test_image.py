"""Images without an engine: made of a folder on a base, or given; either way they end as repository@digest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.registry import Registry
from tasks.stages.image import given, layer
from tests.cloud.registry_store import Store
from tests.tasks.cloud.test_registry import push_image
from tests.tasks.stages.engines import address, quiet, registry, store

__all__ = ["address", "registry", "store"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "My Code").mkdir()
    (tmp_path / "My Code" / "train.py").write_text("print(1)")
    return tmp_path / "My Code"


def put_on_base(folder: Path, address: str, registry: Registry, **more: Any) -> Any:
    return layer(folder, f"{address}/mine", registry, quiet, base=f"{address}/base:v1", **more)


def test_a_folder_on_a_base_is_an_image_and_the_same_one_again(
    folder: Path, address: str, registry: Registry, store: Store
) -> None:
    made = put_on_base(folder, address, registry)
    assert made.image.startswith(f"{address}/mine@sha256:") and made.tag.startswith("My-Code-")
    assert made.base == f"{address}/base@{store.repository('base').tags['v1']}"
    before = len(store.asked)
    again = put_on_base(folder, address, registry)
    assert again.image == made.image and again.reused
    assert not any(one.startswith(("POST", "PUT", "PATCH")) for one in store.asked[before:])
    (folder / "train.py").write_text("print(2)")
    assert put_on_base(folder, address, registry).tag != made.tag


@pytest.mark.parametrize(
    ("pipes", "told"),
    [
        ("ab", "not in the image: a is a pipe, b is a pipe; name what is not needed in .dockerignore"),
        ("abcde", "not in the image: a is a pipe, b is a pipe, c is a pipe, and 2 more; name"),
    ],
)
def test_what_is_left_out_of_a_layer_is_said(
    pipes: str, told: str, folder: Path, address: str, registry: Registry
) -> None:
    for name in pipes:
        os.mkfifo(folder / name)
    for _ in range(2):  # also where the image is there
        said: list[str] = []
        layer(folder, f"{address}/mine", registry, said.append, base=f"{address}/base:v1")
        assert said[0].startswith(told)


def test_a_layer_does_not_take_a_tag_of_another_image(
    folder: Path, address: str, registry: Registry, store: Store
) -> None:
    there = push_image(store, "mine", "v1")
    with pytest.raises(BadInput, match="is another image"):
        put_on_base(folder, address, registry, tag="v1")
    assert store.repository("mine").tags["v1"] == there
    made = put_on_base(folder, address, registry, tag="v1", force=True)
    assert made.image.endswith(store.repository("mine").tags["v1"])


def test_an_image_that_is_given_is_pinned_and_told_as_it_was_written(
    address: str, registry: Registry, store: Store
) -> None:
    made = given(f"{address}/base:v1", registry)
    assert made.source == {"image": f"{address}/base:v1"} and made.reused
    assert made.image == f"{address}/base@{store.repository('base').tags['v1']}"
    with pytest.raises(BadInput, match="there are: v1"):
        given(f"{address}/base:v2", registry)
