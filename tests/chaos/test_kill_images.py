"""Pull the plug on images being made, at every mutating call of the registry: what is left there is used again."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.cloud import image_builders
from tasks.cloud.image_names import image_name
from tasks.cloud.registry import OCI_MANIFEST, Registry
from tasks.cloud.registry_wire import Wire
from tasks.cloud.resolve import Lock
from tasks.stages.build import build
from tests.chaos.driver import fork_and_play, outcome, sample
from tests.cloud.fake_index import lock, wheels  # noqa: F401
from tests.cloud.registry import serve_registry
from tests.cloud.registry_store import Fault, Store, digest_of
from tests.tasks.cloud.test_registry import QUICK, push_image
from tests.tasks.stages.engines import Engine, locked  # noqa: F401
from tests.tasks.stages.test_build_container import a_run, config, layered

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

MUTATING = ("POST", "PATCH", "PUT")
NTH = r"^(POST|PATCH|PUT) /v2/mine/"


class PushingEngine(Engine):
    """An engine that pushes over the wire, and goes when who started it goes."""

    def _push(self, argv: list[str]) -> None:
        target, folder = image_name(argv[-2]), Path(argv[argv.index("--digestfile") + 1]).parent
        blobs = {
            "config": {"config": {"Labels": self.labels}},
            "layer": {"layer": sorted(self.labels.items())},
        }
        told = {}
        with Registry(Wire(QUICK, login=lambda name: None)) as registry:
            for name, content in blobs.items():
                raw = json.dumps(content).encode()
                (folder / name).write_bytes(raw)
                told[name] = {"mediaType": name, "digest": digest_of(raw), "size": len(raw)}
                if not registry.has_blob(target, digest_of(raw)):
                    registry.upload(target, folder / name, digest_of(raw))
            manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST}
            raw = json.dumps({**manifest, "config": told["config"], "layers": [told["layer"]]}).encode()
            pushed = registry.put(target, OCI_MANIFEST, raw)
        (folder / "digest").write_text(str(pushed.digest))


@pytest.fixture
def store() -> Store:
    store = Store()
    push_image(store, "base", "v1", config={"config": {"Env": ["PYTHON_VERSION=3.11.2"]}})
    return store


@pytest.fixture
def address(store: Store) -> Iterator[str]:
    with serve_registry(store) as address:
        yield address


Play = Callable[[str], None]


@pytest.fixture(params=["layer", "engine"])
def play(
    request: pytest.FixtureRequest, address: str, store: Store, locked: Lock, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Play:  # fmt: skip
    """Plays the stage *build* of the run of this name."""
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(image_builders, "engine", PushingEngine(store))
    monkeypatch.setattr("shutil.which", lambda name, path=None: f"/usr/bin/{name}")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").write_text("A = 1")
    target = layered(address, tmp_path / "code") if request.param == "layer" else config(address, smoke=False)

    def played(run_id: str) -> None:
        run = replace(a_run(tmp_path, target, run_id), say=lambda line: None)
        image = build(run, lock=locked)
        (tmp_path / f"{run_id}.made").write_text(f"{image.reference} {image.reused}")

    return played


def calls(store: Store) -> list[str]:
    """Returns what changed the registry since it was asked last."""
    told = [one.split()[0] for one in store.asked if one.startswith(MUTATING)]
    store.asked.clear()
    return told


def complete(store: Store) -> bool:
    """Whether all that a tag stands for is there."""
    kept = store.repository("mine")
    manifests = [json.loads(kept.manifests[digest][1]) for digest in kept.tags.values()]
    return all(one["digest"] in kept.blobs for told in manifests for one in (told["config"], *told["layers"]))


def test_killed_before_and_after_every_mutating_call(play: Play, store: Store, tmp_path: Path) -> None:
    assert outcome(lambda: play("clean")) == 0
    clean, (made, _) = calls(store), (tmp_path / "clean.made").read_text().split()
    assert clean[-1] == "PUT" and len(clean) >= 7
    [(tag, digest)] = store.repository("mine").tags.items()
    moments = [(number, how) for number in range(len(clean)) for how in ("kill_before", "kill_after")]
    for number, how in sample(moments):
        at = f"{how}-{number}-{clean[number].lower()}".replace("_", "-")
        store.repositories.pop("mine")
        store.faults = [Fault(NTH, how, nth=number + 1)]
        pid = fork_and_play(lambda at=at: play(at))  # type: ignore[misc]
        store.victim.put(pid)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL, at
        store.faults = []
        began, there = calls(store), len(store.repository("mine").blobs)
        tagged = number == len(clean) - 1 and how == "kill_after"
        assert store.repository("mine").tags == ({tag: digest} if tagged else {}), at
        assert complete(store), at
        assert outcome(lambda at=at: play(at)) == 0  # type: ignore[misc]
        again = calls(store)
        assert (tmp_path / f"{at}.made").read_text() == f"{made} {tagged}", at
        assert store.repository("mine").tags == {tag: digest} and complete(store), at
        assert (again == []) is tagged, at
        # What had arrived is not sent again.
        left = len(store.repository("mine").blobs) - there
        assert again.count("PATCH") <= left and len(began) + len(again) <= len(clean) + 3, at
