"""What `slicebench run` refuses: each told once, with the fix, before anything is started, said or made."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from flows.cli.main import main
from flows.serving.settings import free_port
from tasks.cloud.resolve import Lock
from tasks.config.request import RunRequest
from tasks.targets.local_preflight import Machine
from tests.cloud.fake_index import lock, wheels
from tests.flows.prefect_stub import PrefectStub
from tests.flows.run_stub import here, outcome

USER = ("-c", "user.name=t", "-c", "user.email=t@example.com")

__all__ = ["here", "lock", "wheels"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run"], "name one: slicebench run SUITE"),
        (["run", "quickstart", "--from", "run"], "add --resume RUN"),
        (["run", "quickstart", "--resume", "r"], "give neither SUITE nor --run-id"),
        (["run", "--resume", "r", "--set", "a=1", "--env", "A=b"], "--env, --set"),
        (["run", "quickstat"], "did you mean quickstart"),
        (["run", "quickstart", "--workers", "0"], "slicebench: --workers must be at least 1, not 0\n"),
        (["run", "quickstart", "--keep", "always"], "makes nothing that could be kept, leave --keep out"),
        (["run", "quickstart", "--lease", "r0"], "leave --lease out"),
        (["run", "quickstart", "--keep-for", "2h"], "--keep-for 2h does nothing"),
        (["run", "quickstart", "--wait-for-lock", "10m"], "leave --wait-for-lock out"),
        (
            ["run", "quickstart", "--keep-for", "2"],
            "--keep-for must be a time, such as 90s, 30m, 4h or 2d, not 2",
        ),
        (["run", "quickstart", "--target", "moon"], "there is no target 'moon'"),
        (
            ["run", "quickstart", "--workers", "3"],
            "meshes take 4 devices, which so many workers cannot share evenly",
        ),
        (["run", "quickstart", "--local-directory", "shm"], "--local-directory shm is no absolute path"),
        (["run", "quickstart", "--local-directory", "gs://b/x"], "gs://b/x is no absolute path"),
        (
            ["run", "quickstart", "--local-directory", "/proc/x"],
            "--local-directory /proc/x cannot be written",
        ),
        (
            [
                "run",
                "quickstart",
                "--target",
                "v5e-16",
                "--output",
                "gs://bucket/r",
                "--local-directory",
                "/dev/shm/x",
            ],
            "only workers on this machine use one so far",
        ),
        (["run", "quickstart", "--workers", "65"], "--workers must be at most 64, not 65"),
        (["run", "quickstart", "--devices-per-worker", "3"], "takes 4 devices, the target has 6"),
        (["run", "--resume", "../r"], "'../r' cannot be the name of a run"),
    ],
)
def test_bad_input_is_refused_with_the_fix(
    here: list[RunRequest], capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert here == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("quickstart --output /proc/x", "output /proc/x is not writable"),
        ("quickstart --output {here}/file", "file is not writable"),
        (
            "quickstart --run-id taken --output {here}",
            "taken is a run already, continue it with --resume taken",
        ),
        ("--resume nosuch --output {here}", "there is no run nosuch in {here}"),
        (
            "quickstart --repo {here}/repo --branch mian --output {here}",
            "has no branch 'mian', nearest: main",
        ),
        ("quickstart --repo {here}/repo --commit abcdef1 --output {here}", "has no commit abcdef1"),
        ("quickstart --repo {here}/repo --output {here}", "holds no Python package"),
    ],
)
def test_what_cannot_begin_is_refused_once_before_anything_is_said_or_made(
    here: list[RunRequest], tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    (tmp_path / "file").write_text("")
    outcome(tmp_path / "taken")
    repo = tmp_path / "repo"
    for argv in (
        ["init", "--quiet", "--initial-branch=main", str(repo)],
        ["-C", str(repo), *USER, "commit", "--quiet", "--allow-empty", "--message=one"],
    ):
        subprocess.run(["git", *argv], check=True)
    before = sorted(tmp_path.iterdir())
    assert main(["run", *words.format(here=tmp_path).split()]) == 2
    shown = capsys.readouterr().err
    assert shown.count(told.format(here=tmp_path)) == 1
    assert "run quickstart-" not in shown
    assert here == []
    assert sorted(tmp_path.iterdir()) == before


ROOMY = Machine(memory=2**40, disk=2**40, processors=64, gpus=0)


@pytest.mark.parametrize(
    ("machine", "target", "told"),
    [
        (
            ROOMY,
            "local-gpu",
            "/local-gpu.yaml: 4 GPUs are needed, a run may use 0 here, see that the driver is loaded",
        ),
        (
            replace(ROOMY, memory=2**29),
            "local",
            "/local.yaml: memory is short: about 824 MiB are needed, 512 MiB are",
        ),
        (
            replace(ROOMY, disk=2**20),
            "local",
            "/local.yaml: disk is short at {here}: about 36 MiB are needed, 1 MiB",
        ),
    ],
)
def test_a_machine_that_cannot_do_it_is_refused_before_anything_starts(
    here: list[RunRequest],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: Machine,
    target: str,
    told: str,
) -> None:
    monkeypatch.setattr("tasks.targets.local_preflight.look", lambda output: machine)
    assert main(["run", "quickstart", "--target", target, "--output", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told.format(here=tmp_path) in line
    assert here == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["run", "quickstart", "--output", "{here}"], ["up", "--port", "{port}"]])
def test_a_state_folder_that_cannot_be_written_is_refused(
    here: list[RunRequest],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    monkeypatch.setenv("SLICEBENCH_HOME", "/proc/x")
    assert main([word.format(here=tmp_path, port=free_port()) for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("slicebench: /proc/x, where slicebench keeps its state, cannot be written")
    assert line.endswith("set SLICEBENCH_HOME to a folder that can")
    assert here == [] and list(tmp_path.iterdir()) == []


def test_a_machine_is_not_judged_by_the_one_that_asks_for_the_run(
    server: PrefectStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.targets.local_preflight.look", lambda output: ROOMY)
    monkeypatch.setattr("flows.server.Server.is_here", False)
    server.on_start = lambda flow_run: server.end("FAILED", "BAD_INPUT: no GPU there either")
    assert main(["run", "quickstart", "--target", "local-gpu", "--output", str(tmp_path)]) == 2
    assert server.flow_run["parameters"]["target"].endswith("/local-gpu.yaml")


def test_a_jax_that_does_not_exist_is_refused_before_anything_is_made(
    here: list[RunRequest], lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.stages.build.Lock", lambda: lock)
    assert main(["run", "quickstart", "--output", str(tmp_path / "out"), "--jax-version", "7.7.7"]) == 2
    assert here == []
    assert not (tmp_path / "out").exists()
