"""An engine that is played, the registry that it pushes to, and the packages that its builds take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.cloud import image_builders
from tasks.cloud.command import Finished
from tasks.cloud.registry import Registry
from tasks.cloud.registry_wire import Wire
from tasks.cloud.resolve import Lock
from tasks.config.spec import SourceSpec
from tasks.stages.image_build import Wanted
from tests.cloud.fake_index import add_wheel, lock, wheels
from tests.cloud.registry import serve_registry
from tests.cloud.registry_store import Store
from tests.tasks.cloud.test_registry import QUICK, push_image

__all__ = ["lock", "wheels"]

RELEASED = SourceSpec()


class Engine:
    """Plays an engine: keeps what it was told, and pushes an image with the labels that it was to have."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.told: list[list[str]] = []
        self.contexts: list[dict[str, bytes]] = []
        self.smoke: list[dict[str, Any]] = [{"step": "import jax", "ok": True, "result": "0.9.0"}]
        self.code = 0
        self.labels: dict[str, str] = {}

    def __call__(self, argv: Sequence[str], *, timeout_s: float = 0.0) -> Finished:
        self.told.append(list(argv))
        match argv[1]:
            case "build":
                self._build(list(argv))
            case "push":
                self._push(list(argv))
            case "run":
                mounted = Path(argv[argv.index("--volume") + 1].partition(":")[0])
                (mounted / "smoke.json").write_text("{}")
                return Finished(self.code, "\n".join(json.dumps(one) for one in self.smoke).encode(), "")
        return Finished(0, b"", "")

    def _build(self, argv: list[str]) -> None:
        context = Path(argv[-1])
        files = [path for path in context.rglob("*") if path.is_file()]
        self.contexts.append({str(path.relative_to(context)): path.read_bytes() for path in files})
        labels = [argv[at + 1].split("=", 1) for at, word in enumerate(argv) if word == "--label"]
        self.labels = dict(labels)

    def _push(self, argv: list[str]) -> None:
        repository, _, tag = argv[-2].partition("/")[2].rpartition(":")
        config = {"config": {"Labels": self.labels}}
        digest = push_image(self.store, repository, tag, (repr(self.labels).encode(),), config=config)
        Path(argv[argv.index("--digestfile") + 1]).write_text(digest)

    def words(self) -> list[str]:
        return [argv[1] for argv in self.told]


@pytest.fixture
def store() -> Store:
    store = Store()
    push_image(store, "base", "v1", config={"config": {"Env": ["PATH=/bin", "PYTHON_VERSION=3.11.2"]}})
    return store


@pytest.fixture
def address(store: Store) -> Iterator[str]:
    with serve_registry(store) as address:
        yield address


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(Wire(QUICK, login=lambda name: None, pause=lambda s: None)) as registry:
        yield registry


@pytest.fixture
def engine(store: Store, monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine(store)
    monkeypatch.setattr(image_builders, "engine", engine)
    monkeypatch.setattr("shutil.which", lambda name, path=None: f"/usr/bin/{name}")
    return engine


@pytest.fixture
def locked(lock: Lock, wheels: Path, tmp_path: Path) -> Lock:
    """The lock of the fake index, with what images need besides."""
    add_wheel(wheels, "portpicker", "1.6.0")
    (tmp_path / "requirements-image.in").write_text("portpicker==1.6.0\n")
    add_wheel(wheels, "clu", "1.0")
    (tmp_path / "requirements-orbax-classes.in").write_text("clu\n")
    return lock


@pytest.fixture
def wanted(address: str) -> Wanted:
    return Wanted(f"{address}/mine", RELEASED, "cpu", f"{address}/base:v1", builder="buildah")


def quiet(line: str) -> None:
    """Hears nothing."""
