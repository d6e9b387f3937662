"""A request bends the lock as little as it must, and a JAX that is not there is told with what is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud import resolve as module
from tasks.cloud.resolve import Lock, Request, pins, resolve
from tests.cloud.fake_index import (
    add_jax,
    add_wheel,
    lay_out_as_index,
    lock,
    wheels,
    write_orbax_source,
)

__all__ = ["lock", "wheels"]


def versions(request: Request, lock: Lock, tmp_path: Path, said: list[str] | None = None) -> dict[str, str]:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    say = said.append if said is not None else print
    resolved = resolve(request, lock, sys.executable, work, say=say)
    for line in resolved.text.splitlines():
        assert "==" in line or "--hash=sha256:" in line, f"{line} has no hash or names an address"
    return pins(resolved.text)


def test_the_lock_as_it_is_asks_nobody(lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_uv", None)
    assert versions(Request(), lock, tmp_path)["jax"] == "0.9.0"


def test_newest_moves_jax_alone_and_tells_of_a_newer_one(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NEWER_PYTHON", "3.99")
    add_jax(tmp_path / "wheels", "0.12.0", python=">=3.99")
    said: list[str] = []
    found = versions(Request(jax="newest"), lock, tmp_path, said)
    assert found["jaxlib"] == found["jax"] != "0.9.0" and found["numpy"] == "2.0"
    assert (
        f"JAX 0.12.0 exists, for a newer Python than this; the newest for this one is {found['jax']}" in said
    )


def test_a_version_by_number(lock: Lock, tmp_path: Path) -> None:
    found = versions(Request(jax="0.10.0"), lock, tmp_path)
    assert (found["jax"], found["jaxlib"], found["numpy"]) == ("0.10.0", "0.10.0", "2.0")


def test_a_version_that_does_not_exist(lock: Lock, tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"there is no JAX 0\.9\.5, nearest for this Python: 0\.9\.0, 0\.10\.0"
    ):
        versions(Request(jax="0.9.5"), lock, tmp_path)


def test_a_version_for_a_newer_python(lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NEWER_PYTHON", "3.99")
    add_jax(tmp_path / "wheels", "0.12.0", python=">=3.99")
    with pytest.raises(BadInput, match=r"JAX 0\.12\.0 needs a newer Python"):
        versions(Request(jax="0.12.0"), lock, tmp_path)


@pytest.mark.parametrize("layout", ["wheels", "index"])
def test_nightlies_come_from_the_index_that_is_named(lock: Lock, tmp_path: Path, layout: str) -> None:
    nightlies, index = tmp_path / "nightlies", tmp_path / "index"
    add_jax(nightlies, "0.12.0.dev20260101")
    add_jax(nightlies, "0.12.0.dev20260102")
    add_wheel(tmp_path / "wheels", "numpy", "3.0rc1")
    lay_out_as_index(nightlies, index)
    named = str(nightlies if layout == "wheels" else index)
    found = versions(Request(jax="nightly", jax_index=named), lock, tmp_path)
    assert found["jax"] == found["jaxlib"] == "0.12.0.dev20260102" and found["numpy"] == "2.0"
    exact = versions(Request(jax="0.12.0.dev20260101", jax_index=named), lock, tmp_path)
    assert exact["jaxlib"] == "0.12.0.dev20260101"


def test_an_index_without_nightlies_is_no_silent_release(lock: Lock, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no JAX nightly"):
        versions(Request(jax="nightly", jax_index=str(tmp_path / "wheels")), lock, tmp_path)


def test_cuda(lock: Lock, tmp_path: Path) -> None:
    found = versions(Request(gpu=True), lock, tmp_path)
    assert found["jax-cuda12-plugin"] == found["jax"] == "0.9.0"


def test_a_newer_cuda_where_the_old_is_gone(lock: Lock, wheels: Path, tmp_path: Path) -> None:
    add_jax(wheels, "0.10.5", plugin="cuda13")
    found = versions(Request(jax="0.10.5", gpu=True), lock, tmp_path)
    assert found["jax-cuda13-plugin"] == "0.10.5"


def test_tpus(lock: Lock, wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"JAX 0\.9\.0 has no libtpu"):
        versions(Request(tpu=True), lock, tmp_path)
    add_jax(wheels, "0.10.5", tpu="0.0.9")
    found = versions(Request(jax="0.10.5", tpu=True), lock, tmp_path)
    assert (found["jax"], found["libtpu"]) == ("0.10.5", "0.0.9")


def test_a_tree_brings_what_it_needs_and_not_itself(lock: Lock, wheels: Path, tmp_path: Path) -> None:
    add_wheel(wheels, "newdep", "1.5")
    write_orbax_source(tmp_path / "orbax", "0.13.0", dependencies=["newdep", "numpy>=2.1"])
    found = versions(Request(tree=tmp_path / "orbax" / "checkpoint"), lock, tmp_path)
    assert found == {"jax": "0.9.0", "jaxlib": "0.9.0", "newdep": "1.5", "numpy": "2.1"}


def test_extras(lock: Lock, wheels: Path, tmp_path: Path) -> None:
    add_wheel(wheels, "clu", "0.1", requires=["numpy"])
    (tmp_path / "requirements-orbax-classes.in").write_text("# why\nclu\n")
    assert versions(Request(extras=("orbax-classes",)), lock, tmp_path)["clu"] == "0.1"


ROOT = Path(__file__).parents[3]
LOCKS = sorted(
    path for folder in ("requirements", "runtime", "deployments") for path in (ROOT / folder).rglob("*.lock")
)


@pytest.mark.parametrize("lock_file", LOCKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_lock_names_hashes_and_no_addresses(lock_file: Path) -> None:
    text = lock_file.read_text()
    assert "://" not in text and "--find-links" not in text and " @ " not in text
    packages = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert packages and all("==" in one and "--hash=sha256:" in one for one in packages)


def test_all_locks_are_looked_at_and_the_real_one_pins_what_is_wanted() -> None:
    assert len(LOCKS) == 5 and Lock().pins in LOCKS
    locked = pins(Lock().pins.read_text())
    wanted = [line for line in Lock().wanted.read_text().splitlines() if line and not line.startswith("#")]
    for line in wanted:
        name, _, version = line.partition("==")
        assert name in locked and (not version or locked[name] == version)
    assert Lock().extra("orbax-classes").is_file()
