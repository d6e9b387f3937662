"""The program that makes venvs on hosts, as a process of its own: once, whole, and half of one is never believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cloud.fake_index import add_wheel
from tests.runtime.hosts.asking import COMMAND, asked
from tests.waiting import until

LABELS = {"SLICEBENCH_LEASE": "run-1-e1", "SLICEBENCH_LEDGER_ID": "ledger"}


class Scene:
    """A kit, the folder of venvs, and pip settings that see one folder of tiny wheels."""

    def __init__(self, folder: Path) -> None:
        self.wheels, self.kit, self.venvs = folder / "wheels", folder / "kit", folder / "home" / "venvs"
        self.labels = folder / "run"
        for made in (self.kit, self.labels):
            made.mkdir()
        (self.labels / ".slicebench-lease.json").write_text(json.dumps(LABELS))
        self.pin = add_wheel(self.wheels, "tiny", "1.0")
        (self.kit / "requirements.txt").write_text(f"{self.pin}\n")
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))},
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }

    def orbax(self, version: str, text: str = "") -> None:
        """Puts a wheel of Orbax into the kit, as code under test."""
        built = self.kit.parent / "built"
        add_wheel(built, "orbax-checkpoint", version, files={"orbax/checkpoint/__init__.py": text})
        (built / f"orbax_checkpoint-{version}-py3-none-any.whl").replace(self.kit / "source.whl")

    def start(self, base: str = "base", layer: str = "", **fields: Any) -> subprocess.Popen[str]:
        request = {
            "op": "make",
            "venvs": str(self.venvs),
            "base": base,
            "layer": layer,
            "python": sys.executable,
            "kit": str(self.kit),
            "labels": str(self.labels),
            "limit_s": 300.0,
            **fields,
        }
        program = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, text=True,
        )  # fmt: skip
        assert program.stdin is not None
        program.stdin.write(asked("venv", request))
        program.stdin.close()
        program.stdin = None
        return program

    def make(self, base: str = "base", layer: str = "", **fields: Any) -> Mapping[str, Any]:
        return answer(self.start(base, layer, **fields))

    def refused(self, **fields: Any) -> Mapping[str, Any]:
        output, errors = self.start(**fields).communicate(timeout=300)
        told: Mapping[str, Any] = json.loads(output)
        assert "error" in told, errors
        return told


def answer(program: subprocess.Popen[str]) -> Mapping[str, Any]:
    output, errors = program.communicate(timeout=300)
    told: Mapping[str, Any] = json.loads(output or "{}")
    assert "answer" in told, (told, errors)
    result: Mapping[str, Any] = told["answer"]
    return result


def says(python: str, code: str) -> str:
    return subprocess.check_output([python, "-I", "-c", code], text=True, cwd="/").strip()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_two_at_once_make_one_and_a_third_finds_it_until_it_is_damaged(scene: Scene) -> None:
    scene.orbax("0.13.0", "WHO = 'first'\n")
    told = [answer(program) for program in [scene.start(layer="code-1"), scene.start(layer="code-1")]]
    assert sorted(one["reused"] for one in told) == [False, True]
    assert {one["packages"]["tiny"] for one in told} == {"1.0"}
    assert {one["packages"]["orbax-checkpoint"] for one in told} == {"0.13.0"}
    [log] = [one["log"] for one in told if not one["reused"]]
    assert "tiny-1.0" in log
    python = told[0]["python"]
    assert python == str(scene.venvs / "code-1" / "bin" / "python")
    code = "import importlib.metadata as m, orbax.checkpoint as o, tiny; print(o.WHO, tiny.VERSION, m.version('tiny'))"
    assert says(python, code) == "first 1.0 1.0"
    again = scene.make(layer="code-1")
    assert (again["reused"], again["log"]) == (True, "")

    # Other code under test is laid over the same packages: no pip runs.
    scene.orbax("0.13.1", "WHO = 'second'\n")
    second = scene.make(layer="code-2")
    assert (second["reused"], second["log"]) == (False, "")
    assert says(second["python"], "import orbax.checkpoint as o; print(o.WHO)") == "second"
    assert says(python, "import orbax.checkpoint as o; print(o.WHO)") == "first"

    module = next((scene.venvs / "code-2").glob("lib/python*/site-packages/orbax/checkpoint/__init__.py"))
    module.write_text("WHO = 'somebody'\n")
    assert scene.make(layer="code-2")["reused"] is False
    assert module.read_text() == "WHO = 'second'\n"
    old = time.time() - 31 * 86400
    os.utime(scene.venvs / "code-1" / "complete.json", (old, old))
    scene.make(layer="code-2")
    assert sorted(path.name for path in scene.venvs.iterdir() if path.is_dir()) == ["base", "code-2"]


def _installs(process: psutil.Process) -> bool:
    try:
        return "install" in process.cmdline()
    except psutil.Error:  # it has ended meanwhile
        return False


def test_killed_half_way_it_leaves_nothing_that_is_believed(scene: Scene) -> None:
    requirements = scene.kit / "requirements.txt"
    requirements.unlink()
    os.mkfifo(requirements)  # pip waits for what it never gets
    program = scene.start()

    def pips() -> list[psutil.Process]:
        return [one for one in psutil.Process(program.pid).children() if _installs(one)]

    until(pips)
    waiting = pips()
    environ = waiting[0].environ()
    assert {name: environ[name] for name in LABELS} == LABELS, "the reaper finds it"
    program.kill()
    program.wait()
    until(lambda: not waiting[0].is_running() or waiting[0].status() == psutil.STATUS_ZOMBIE)
    assert (scene.venvs / "base" / "bin" / "python").exists()
    assert not (scene.venvs / "base" / "complete.json").exists()
    requirements.unlink()
    requirements.write_text(f"{scene.pin}\n")
    (scene.venvs / "base" / "half").touch()
    told = scene.make()
    assert (told["reused"], told["packages"]["tiny"]) == (False, "1.0")
    assert not (scene.venvs / "base" / "half").exists()


def test_what_pip_cannot_do_is_told_in_its_words_and_nothing_is_left(scene: Scene) -> None:
    requirements = scene.kit / "requirements.txt"
    requirements.write_text(scene.pin[:-4] + "beef\n")
    told = scene.refused()
    assert "pip install failed with exit code 1" in told["error"]
    assert "DO NOT MATCH THE HASHES" in told["error"]
    assert not (scene.venvs / "base").exists()
    requirements.unlink()
    os.mkfifo(requirements)
    assert "did not end in time" in scene.refused(limit_s=5.0)["error"]
    assert not (scene.venvs / "base").exists()


def test_a_full_disk_is_told_as_such(scene: Scene) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root")
    scene.venvs.mkdir(parents=True)
    pin = add_wheel(scene.wheels, "large", "1.0", files={"large.py": "#" * (4 << 20)})
    (scene.kit / "requirements.txt").write_text(f"{pin}\n")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(scene.venvs)], check=True)
    try:
        told = scene.refused()
        assert told["errno"] == "ENOSPC", told
        assert not (scene.venvs / "base").exists()
    finally:
        subprocess.run(["umount", "--lazy", str(scene.venvs)], check=True)
