"""A folder on a base in Debian's docker-registry: who is killed in the middle of a push leaves no tag."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.cloud import registry as registries
from tasks.cloud.registry import Registry
from tasks.stages.image import Made, layer
from tests.chaos.driver import outcome
from tests.cloud.docker_registry import missing, serve_docker_registry
from tests.system.pushed import push_layer

pytestmark = pytest.mark.system


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    if reason := missing():
        pytest.skip(reason)
    (tmp_path / "registry").mkdir()
    with serve_docker_registry(tmp_path / "registry") as address:
        yield address


def push_base(address: str, folder: Path) -> str:
    """Pushes an image of one small layer; returns its name."""
    (folder / "base").write_bytes(b"not unpacked here")
    name = f"{address}/base:1"
    push_layer(name, folder / "base", {}, folder)
    return name


def test_who_is_killed_in_the_middle_of_a_push_leaves_no_tag_and_the_same_again_makes_it(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = push_base(address, tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data").write_bytes(os.urandom(8 << 20))
    said: list[str] = []

    def play() -> Made:
        with Registry() as registry:
            return layer(tmp_path / "code", f"{address}/mine", registry, said.append, base=base)

    pieces = registries._pieces

    def cut(file: Path, offset: int) -> Iterator[bytes]:
        for number, piece in enumerate(pieces(file, offset)):
            if number == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            yield piece

    with monkeypatch.context() as patch:
        patch.setattr(registries, "_pieces", cut)
        assert outcome(play) == -signal.SIGKILL
    repository = tmp_path / "registry/kept/docker/registry/v2/repositories/mine"
    assert not (repository / "_manifests" / "tags").exists()
    assert len(list((repository / "_uploads").iterdir())) == 1, (
        "what was broken off is the registry's to delete"
    )
    made = play()
    assert not made.reused and [one.name for one in (repository / "_manifests" / "tags").iterdir()] == [
        made.tag
    ]
    assert any("its configuration" in line and "already" in line for line in said), said
    assert play().reused
