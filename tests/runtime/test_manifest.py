"""The manifest tells what ran, and keeps secrets."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from pathlib import Path

import jax
import pytest

from runtime.contract.redaction import REDACTED
from runtime.manifest import collect_manifest, environment, file_system, versions, write_manifest


def test_manifest_is_json_with_what_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEBENCH_SOURCE", json.dumps({"commit": "f00d", "repository": "orbax"}))
    monkeypatch.setenv("SLICEBENCH_GIVEN_ENV", "MINE,HERS")
    manifest = collect_manifest(str(tmp_path), {"run_id": "r", "attempt": 2})
    name = write_manifest(manifest, str(tmp_path), 2, 3, tmp_path)
    assert name == "results/manifest-a2-w0003.json"
    read = json.loads((tmp_path / name).read_text())
    assert (read["run_id"], read["attempt"], read["source"]["commit"]) == ("r", 2, "f00d")
    assert read["environment_given"] == ["HERS", "MINE"]
    assert read["versions"]["jax"] == jax.__version__
    assert read["devices"]["local_count"] == jax.local_device_count()
    assert (read["devices"]["platform"], read["devices"]["process_count"]) == (jax.default_backend(), 1)
    assert read["host"]["memory_bytes"] > 2**28
    assert read["output"] == {"uri": str(tmp_path), "file_system": file_system(str(tmp_path))}


def test_source_is_unknown_when_nobody_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLICEBENCH_SOURCE", raising=False)
    assert collect_manifest(str(tmp_path))["source"] == {"commit": "unknown"}


def test_versions_are_of_what_is_installed() -> None:
    told = versions(["tensorstore", "no-such-package-anywhere"])
    expected = importlib.metadata.version("tensorstore")
    assert told == {"python": platform.python_version(), "tensorstore": expected}


def test_environment_keeps_flags_and_hides_secrets() -> None:
    told = environment(
        {
            "XLA_FLAGS": "--xla_x=1",
            "LIBTPU_INIT_ARGS": "--y",
            "JAX_PLATFORMS": "cpu",
            "JAX_ACCESS_TOKEN": "hunter2",
            "HOME": "/root",
            "DATABASE": "hunter2",
            "ORBAX_MODE": "hunter2",
            "SLICEBENCH_SECRET_ENV": "DATABASE, ORBAX_MODE,MISSING",
        }
    )
    assert told == {
        "DATABASE": REDACTED,
        "JAX_ACCESS_TOKEN": REDACTED,
        "JAX_PLATFORMS": "cpu",
        "LIBTPU_INIT_ARGS": "--y",
        "ORBAX_MODE": REDACTED,
        "XLA_FLAGS": "--xla_x=1",
    }


def test_environment_keeps_all_that_the_run_was_given() -> None:
    told = environment(
        {
            "MY_MODE": "fast",
            "MY_STORE": "https://me:hunter2@store.test/x",
            "MY_HEADER": "Bearer hunter22",
            "WORD": "hunter22",
            "NOT_GIVEN": "x",
            "SLICEBENCH_SECRET_ENV": "WORD",
            "SLICEBENCH_GIVEN_ENV": "MY_HEADER,MY_MODE,MY_STORE,WORD",
        }
    )
    assert told == {
        "MY_HEADER": f"Bearer {REDACTED}",
        "MY_MODE": "fast",
        "MY_STORE": f"https://{REDACTED}@store.test/x",
        "WORD": REDACTED,
    }


@pytest.mark.parametrize(("output", "kind"), [("/proc/1", "proc"), ("/sys/x/y", "sysfs"), ("gs://b/r", "gs")])
def test_file_system_is_named(output: str, kind: str) -> None:
    assert file_system(output) == kind


def test_file_system_of_a_folder_not_made_yet(tmp_path: Path) -> None:
    assert file_system(str(tmp_path / "not" / "yet")) == file_system(str(tmp_path)) != "unknown"
