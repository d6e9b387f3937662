"""`slicebench run`: its flags, how it goes through a server, and what it does without one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from flows.cli.run import Flags
from runtime.contract.errors import ExitCode
from tasks.config.request import RunRequest
from tests.flows.prefect_stub import PrefectStub
from tests.flows.run_stub import here, outcome
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]

__all__ = ["here"]


@pytest.mark.parametrize(("code", "more"), [(0, []), (4, ["--json"])])
def test_a_finished_run_that_lacks_nothing_is_not_started_again(
    here: list[RunRequest], tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, more: list[str]
) -> None:
    outcome(tmp_path / "r1", code, verdict="PASS")
    (tmp_path / "r1" / "stages").mkdir()
    for name in ("points.json", "samples.parquet", "verdicts.json", "report.html"):
        (tmp_path / "r1" / name).write_text("PAR1 samples PAR1" if name.endswith("parquet") else "{}")
    for stage in ("run", "collect", "teardown"):
        (tmp_path / "r1" / "stages" / f"{stage}.json").write_text('{"outputs": {"whole": true}}')
    words = ["run", "--resume", "r1", "--output", str(tmp_path)]
    assert main([*words, *more]) == code
    assert here == []
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert line.startswith(f"run r1 is finished (exit code {code}, verdict PASS) and lacks nothing")
    assert not more or json.loads(shown.out)["exit_code"] == code
    main([*words, "--from", "collect"])
    assert [request.from_stage for request in here] == ["collect"]


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
    ("words", "name"),
    [
        (["run", ""], "SUITE"),
        (["run", "--resume", ""], "--resume"),
        (["run", "quickstart", "--output", ""], "--output"),
        (["plan", "quickstart", "--branch", ""], "--branch"),
    ],
)
def test_an_empty_word_is_refused_and_not_taken_for_the_default(
    here: list[RunRequest], words: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.BAD_INPUT
    assert f"{name} is empty" in capsys.readouterr().err
    assert here == []


def test_a_run_stopped_before_it_began_is_not_to_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(request: RunRequest, listener: Any) -> str:
        assert main(["runs", "--output", str(tmp_path)]) == 0
        raise KeyboardInterrupt

    monkeypatch.setattr("flows.here.run_here", interrupted)
    assert main(["run", "quickstart", "--output", str(tmp_path)]) == 130
    listed, told = capsys.readouterr()
    assert listed.splitlines()[1].split()[-3:] == ["starting", "–", "–"], "it is in the list already"
    assert told.endswith("(interrupted): nothing was made\n")
    assert "--resume" not in told
    assert list(tmp_path.iterdir()) == []
    assert "starting Prefect" in told


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
    asked = RunRequest(suite="…", output="…", run_id="…").model_dump(exclude_none=True)
    assert set(parameters) == set(asked), "what is not asked for is left out: the form takes no null"
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


def test_through_a_server_the_run_itself_is_asked_to_tell_its_calls(
    server: PrefectStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(flow_run: dict[str, Any]) -> None:
        folder = tmp_path / flow_run["parameters"]["run_id"]
        outcome(folder)
        (folder / "run.log").write_text("2026-11-27T00:00:00+00:00 call ssh: me@host true: ok, 0.01 s\n")
        server.end("COMPLETED")

    server.on_start = start
    assert main(["run", "quickstart", "--output", str(tmp_path), "--verbose"]) == 0
    assert server.flow_run["parameters"]["verbose"] is True
    assert "\ncall ssh: me@host true: ok, 0.01 s\n" in capsys.readouterr().err


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
    until(lambda: ("GET", "flow_runs/f1", None) in server.calls)
    command.send_signal(number)
    until(lambda: looked_after_cancel and len(server.calls) > looked_after_cancel[0] + 1)
    assert command.poll() is None, "it left before the run had ended"
    outcome(tmp_path / "r1", 130, causes=["interrupted"])
    server.end("CANCELLED")
    assert command.wait(PATIENCE_S) == 130
    assert len(looked_after_cancel) == 1
