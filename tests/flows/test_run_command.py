"""`slicebench run`: what it refuses and how fast, how it goes through a server, and what it does without one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from flows.cli.run import Flags
from tasks.cloud.resolve import Lock
from tasks.config.request import RunRequest
from tasks.targets.local_preflight import Machine
from tests.cloud.fake_index import lock, wheels
from tests.flows.prefect_stub import PrefectStub

ROOT = Path(__file__).parents[2]
USER = ("-c", "user.name=t", "-c", "user.email=t@example.com")

__all__ = ["lock", "wheels"]


def outcome(folder: Path, code: int = 0, **fields: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    told = {"run_id": folder.name, "exit_code": code, "verdict": None, "causes": [], "report": None}
    (folder / "outcome.json").write_text(json.dumps(told | fields))
    request = {"request": {"suite": "quickstart", "run_id": folder.name}}
    (folder / "request.json").write_text(json.dumps(request))
    (folder / "suite.yaml").write_text((ROOT / "configs/suites/quickstart.yaml").read_text())


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """Stands in for a run in this process; collects what was asked of it."""
    asked: list[RunRequest] = []

    def run_here(request: RunRequest, listener: Any) -> str:
        asked.append(request)
        assert request.output and request.run_id
        outcome(Path(request.output) / request.run_id)
        return ""

    monkeypatch.setattr("flows.here.run_here", run_here)
    return asked


def test_flags_are_the_fields_of_a_request() -> None:
    assert set(Flags.model_fields) == set(RunRequest.model_fields)


def test_help_puts_every_flag_of_a_request_under_a_heading() -> None:
    from flows.cli.run import _GROUPS

    sorted_ones = [name for names in _GROUPS.values() for name in names]
    assert sorted(sorted_ones) == sorted(set(RunRequest.model_fields) - {"suite", "resume"})


def test_help_tells_defaults_and_no_empty_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "[default: local]" in shown and "[default: locked]" in shown
    assert "[default: []]" not in shown and "[default: False]" not in shown and "None" not in shown
    headings = ["Arguments", "Where", "What is measured", "Hardware", "How it goes", "What it says"]
    assert sorted(headings, key=lambda heading: shown.index(f" {heading}")) == headings


def test_flags_reach_the_run(here: list[RunRequest], tmp_path: Path) -> None:
    words = ["run", "quickstart", "--output", str(tmp_path), "--run-id", "r1", "--set", "num_repeats=3"]
    words += ["--env", "A=b", "--env", "C=d", "--keep", "never", "--workers", "2", "--debug-dumps"]
    assert main(words) == 0
    (request,) = here
    assert (request.run_id, request.output, request.set) == ("r1", str(tmp_path), ["num_repeats=3"])
    assert (request.env, request.keep, request.workers, request.debug_dumps) == (
        ["A=b", "C=d"],
        "never",
        2,
        True,
    )


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
            "taken is a run already, go on with it by --resume taken",
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


def test_a_run_stopped_before_it_began_is_not_to_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(request: RunRequest, listener: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("flows.here.run_here", interrupted)
    assert main(["run", "quickstart", "--output", str(tmp_path)]) == 130
    told = capsys.readouterr().err
    assert told.endswith("interrupted; nothing was made\n")
    assert "--resume" not in told
    assert "starting Prefect" in told


def test_a_refusal_is_quick_and_imports_neither_prefect_nor_jax() -> None:
    program = (
        "import sys; from flows.cli.main import main; code = main(['run', 'quickstart', '--output', '/proc/x'])\n"
        "slow = {'prefect', 'jax', 'pandas', 'matplotlib', 'numpy'} & set(sys.modules)\n"
        "sys.exit(code if not slow else f'imported {slow}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2, done.stderr


def test_through_a_server_paths_mean_what_they_mean_here(
    server: PrefectStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text((ROOT / "configs/suites/quickstart.yaml").read_text())
    (tmp_path / "worker.env").write_text("A=b\n")
    monkeypatch.chdir(tmp_path)

    def start(flow_run: dict[str, Any]) -> None:
        outcome(Path(flow_run["parameters"]["output"]) / flow_run["parameters"]["run_id"])
        server.end("COMPLETED")

    server.on_start = start
    assert main(["run", "mine.yaml", "--output", "out", "--env-file", "worker.env"]) == 0
    parameters = server.flow_run["parameters"]
    assert set(parameters) == set(RunRequest.model_fields)
    assert parameters["suite"] == str(tmp_path / "mine.yaml")
    assert parameters["output"] == str(tmp_path / "out")
    assert parameters["env_file"] == [str(tmp_path / "worker.env")]
    assert parameters["run_id"].startswith("mine-")


def test_through_a_server_the_log_is_printed_and_the_outcome_is_the_exit_code(
    server: PrefectStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(flow_run: dict[str, Any]) -> None:
        folder = tmp_path / flow_run["parameters"]["run_id"]
        outcome(folder, 1, causes=["save: the restored tree differs at a/b"])
        (folder / "run.log").write_text(
            "2026-11-27T00:00:00+00:00 provisioning\n2026-11-27T00:00:01+00:00 collecting\n"
        )
        server.end("FAILED", "WORKLOAD_FAILED: …")

    server.on_start = start
    assert main(["run", "quickstart", "--output", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "provisioning\ncollecting\n" in told
    assert "the restored tree differs at a/b" in told
    assert f" --output {tmp_path}" in told.partition("slicebench run --resume quickstart-")[2]


def test_a_resumed_run_does_not_print_its_old_log_nor_believe_its_old_outcome(
    server: PrefectStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome(tmp_path / "r1")
    (tmp_path / "r1" / "run.log").write_text("2026-11-27T00:00:00+00:00 old\n")
    server.on_start = lambda flow_run: server.end("CRASHED", "killed")
    server.errors = ["Process for flow run exited with status code: -9"]
    assert main(["run", "--resume", "r1", "--output", str(tmp_path)]) == 3
    told = capsys.readouterr().err
    assert "old" not in told
    assert "status code: -9" in told
    assert server.flow_run["parameters"]["resume"] is True


@pytest.mark.parametrize(
    ("message", "code"),
    [("BAD_INPUT: no such suite", 2), ("LEAKED: process 7", 5), ("", 3), ("Process exited with 1", 3)],
)
def test_a_run_without_an_outcome_ends_as_its_state_says(
    server: PrefectStub, tmp_path: Path, message: str, code: int
) -> None:
    server.on_start = lambda flow_run: server.end("FAILED", message)
    assert main(["run", "quickstart", "--output", str(tmp_path)]) == code


def test_json_is_one_object_on_stdout(
    server: PrefectStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on_start = lambda flow_run: server.end("FAILED", "BAD_INPUT: no such suite")
    assert main(["run", "quickstart", "--output", str(tmp_path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["exit_code"] == 2
    assert told["causes"] == ["no such suite"]
    assert told["folder"] == str(tmp_path / told["run_id"])


def test_a_secret_does_not_travel_in_parameters(
    server: PrefectStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    server.on_start = lambda flow_run: server.end("COMPLETED")
    main(["run", "quickstart", "--output", str(tmp_path), "--env", "HF_TOKEN"])
    assert server.flow_run["parameters"]["env"] == ["HF_TOKEN"]
    assert "hunter2" not in json.dumps(server.calls)
    assert "HF_TOKEN is taken from the environment of the Prefect worker" in capsys.readouterr().err


def test_without_a_server_that_answers_the_run_goes_on_and_says_so(
    server: PrefectStub, here: list[RunRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    server.close()
    assert main(["run", "quickstart"]) == 0
    assert len(here) == 1
    assert "does not answer" in capsys.readouterr().err


def test_without_the_deployment_the_run_goes_on_and_says_so(
    server: PrefectStub, here: list[RunRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    server.deployments.clear()
    assert main(["run", "quickstart"]) == 0
    assert len(here) == 1
    assert "has no deployment benchmark/adhoc; going on without" in capsys.readouterr().err


def test_no_server_asks_no_server(server: PrefectStub, here: list[RunRequest]) -> None:
    assert main(["run", "quickstart", "--no-server"]) == 0
    assert len(here) == 1
    assert server.calls == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_flow_run_and_waits_for_its_end(
    server: PrefectStub, tmp_path: Path, clean_environment: Path, number: signal.Signals
) -> None:
    looked_after_cancel = []

    def cancel(flow_run: dict[str, Any]) -> None:
        server.end("CANCELLING")
        looked_after_cancel.append(len(server.calls))

    server.on_start = lambda flow_run: server.end("RUNNING")
    server.on_cancel = cancel
    command = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "flows.cli.main",
            "run",
            "quickstart",
            "--output",
            str(tmp_path),
            "--run-id",
            "r1",
        ],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stderr is not None
    for line in command.stderr:
        if "flow run quickstart on local: " in line:
            break
    wait_for(lambda: ("GET", "flow_runs/f1", None) in server.calls)
    command.send_signal(number)
    wait_for(lambda: looked_after_cancel and len(server.calls) > looked_after_cancel[0] + 1)
    assert command.poll() is None, "it left before the run had ended"
    outcome(tmp_path / "r1", 130, causes=["interrupted"])
    server.end("CANCELLED")
    assert command.wait(20) == 130
    assert len(looked_after_cancel) == 1


def wait_for(condition: Any, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)
