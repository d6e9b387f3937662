"""A layer appended to an image by the registry's API alone: what the new image is made of, and what is moved for it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud.image_append import Change, append_layer, appended_config
from tasks.cloud.image_layer import Layer, pack_layer
from tasks.cloud.image_names import ImageName, image_name
from tasks.cloud.registry import DOCKER_MANIFEST, OCI_MANIFEST, Registry
from tasks.cloud.registry_wire import Wire
from tests.cloud.registry import serve_registry
from tests.cloud.registry_store import Store, digest_of
from tests.tasks.cloud.test_registry import QUICK, push_image

CHANGE = Change("/app", {"slicebench.base": "b"}, "slicebench: layer")


@pytest.fixture
def layer(tmp_path: Path) -> Layer:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print('hello')")
    return pack_layer(tmp_path / "code", tmp_path / "layer.tar.gz")


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(Wire(QUICK, login=lambda name: None, pause=lambda s: None)) as registry:
        yield registry


def test_what_is_there_already_is_said_and_not_sent(registry: Registry, layer: Layer) -> None:
    store, said = Store(), list[str]()
    with serve_registry(store) as address:
        push_image(store, "base", "v1")
        store.repository("mine").blobs[layer.digest] = layer.file.read_bytes()
        base = registry.image(image_name(f"{address}/base:v1"))
        append_layer(registry, base, layer, CHANGE, image_name(f"{address}/mine:t"), said.append)
    assert said == [f"the layer, {layer.digest[7:19]}, is in {address}/mine already"]
    assert sum(one.startswith("PATCH") for one in store.asked) == 1, "its configuration"


def test_a_full_disk_is_told_where_parts_are_copied(
    registry: Registry, layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = Store()
    with serve_registry(Store()) as other, serve_registry(store) as address:
        push_image(store, "base", "v1")
        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(
            InfrastructureError, match="No space left on device: free some space, or set TMPDIR"
        ):
            append(registry, f"{address}/base:v1", f"{other}/mine:t", layer)


def append(registry: Registry, base: str, target: str, layer: Layer) -> ImageName:
    manifest = registry.image(image_name(base))
    return append_layer(registry, manifest, layer, CHANGE, image_name(target), lambda line: None)


@pytest.mark.parametrize("media_type", [OCI_MANIFEST, DOCKER_MANIFEST])
def test_the_image_is_the_base_and_the_layer(registry: Registry, layer: Layer, media_type: str) -> None:
    store = Store()
    with serve_registry(store) as address:
        base = push_image(store, "base", "v1", (b"one", b"two"), media_type)
        made = append(registry, f"{address}/base:v1", f"{address}/mine:t", layer)
    kept = store.repository("mine")
    assert kept.tags == {"t": made.digest}
    told_type, raw = kept.manifests[str(made.digest)]
    manifest = json.loads(raw)
    assert told_type == manifest["mediaType"] == media_type
    assert [one["digest"] for one in manifest["layers"]] == [
        digest_of(b"one"),
        digest_of(b"two"),
        layer.digest,
    ]
    assert ("docker" in manifest["layers"][-1]["mediaType"]) is (media_type == DOCKER_MANIFEST)
    config = json.loads(kept.blobs[manifest["config"]["digest"]])
    assert config["rootfs"]["diff_ids"][-1] == layer.diff_id and len(config["rootfs"]["diff_ids"]) == 3
    assert config["history"][-1] == {"created": "2026-01-01T00:00:00Z", "created_by": "slicebench: layer"}
    assert len(config["history"]) == 3
    assert config["config"]["WorkingDir"] == "/app" and config["config"]["Labels"] == {"slicebench.base": "b"}
    assert config["config"]["Env"] == ["PYTHON_VERSION=3.12.1"]
    assert store.repository("base").tags == {"v1": base}


def test_within_a_registry_layers_are_mounted_not_moved(registry: Registry, layer: Layer) -> None:
    store = Store()
    with serve_registry(store) as address:
        push_image(store, "base", "v1", (b"one", b"two"))
        append(registry, f"{address}/base:v1", f"{address}/mine:t", layer)
    assert sum("PATCH" in one for one in store.asked) == 2  # configuration and layer
    assert not store.uploads


def test_where_mounting_is_not_done_layers_are_copied(registry: Registry, layer: Layer) -> None:
    store = Store(mounts=False)
    with serve_registry(store) as address:
        push_image(store, "base", "v1", (b"one", b"two", b"one"))
        append(registry, f"{address}/base:v1", f"{address}/mine:t", layer)
    assert store.repository("mine").blobs[digest_of(b"one")] == b"one"
    assert not store.uploads  # those that came instead of a mount were taken back


def test_from_another_registry_layers_are_copied(registry: Registry, layer: Layer) -> None:
    there, here = Store(), Store(login=None)
    with serve_registry(there) as far, serve_registry(here) as near:
        push_image(there, "base", "v1", (b"one", b"two"))
        made = append(registry, f"{far}/base:v1", f"{near}/mine:t", layer)
        again = append(registry, f"{far}/base:v1", f"{near}/mine:u", layer)
    assert made.digest == again.digest  # the same inputs, the same image
    assert sum("PATCH" in one for one in here.asked) == 4  # once each
    assert not any("PATCH" in one for one in there.asked)


def test_a_layer_onto_its_own_repository_moves_nothing(registry: Registry, layer: Layer) -> None:
    store = Store()
    with serve_registry(store) as address:
        push_image(store, "mine", "v1", (b"one",))
        append(registry, f"{address}/mine:v1", f"{address}/mine:v2", layer)
    assert sum("POST" in one for one in store.asked) == 2


def test_a_history_that_tells_too_little_is_not_made_to_look_complete(layer: Layer) -> None:
    base = {"rootfs": {"type": "layers", "diff_ids": ["a", "b"]}, "history": [{"created_by": "x"}]}
    assert appended_config(base, layer, CHANGE)["history"] == [{"created_by": "x"}]
    full = {**base, "history": [{"created_by": "x"}, {"empty_layer": True}, {"created_by": "y"}]}
    assert len(appended_config(full, layer, CHANGE)["history"]) == 4
    assert base["rootfs"]["diff_ids"] == ["a", "b"]  # type: ignore[index]
    bare = appended_config({}, layer, CHANGE)
    assert bare["rootfs"]["diff_ids"] == [layer.diff_id]
