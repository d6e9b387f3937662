"""`slicebench nightly` and `check` of nightlies: what is wrong is refused before anything is made."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from tasks.stages.nightly_record import NightRecord
from tests.flows.prefect_stub import PrefectStub

CELL = {"title": "quickstart · local · pinned", "status": "passed", "cause": "", "runs": [{}]}


def test_a_name_that_is_none_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nightly", "defolt"]) == 2
    assert "there is no nightly 'defolt', did you mean default?" in capsys.readouterr().err


def test_a_date_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nightly", "default", "--night", "tonight"]) == 2
    assert "'tonight' is no night, write its date, as 2026-11-30" in capsys.readouterr().err


def test_check_looks_at_all_that_a_nightly_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "night.yaml"
    file.write_text("name: n\nsuites: [quickstart, nosuch]\ntargets: [local]\nversions: [pinned]\n")
    assert main(["check", str(file), "--json"]) == 2
    told, words = capsys.readouterr()
    [checked] = json.loads(told)["files"]
    assert (checked["kind"], checked["ok"]) == ("nightly", False)
    assert "nosuch · local · pinned: there is no suite 'nosuch'" in words
    file.write_text("name: n\nsuites: [quickstart]\n")
    assert main(["check", str(file)]) == 0
    assert "ok, a nightly of 1 cell" in capsys.readouterr().err
    assert not any(one.name != "night.yaml" for one in tmp_path.iterdir())


def test_check_knows_a_nightly_by_its_other_keys_and_each_by_its_own_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "typo.yaml").write_text("name: n\nsuits: [quickstart]\nversions: [pinned]\n")
    assert main(["check", str(tmp_path / "typo.yaml")]) == 2
    assert capsys.readouterr().err.endswith("typo.yaml:2:1: unknown key 'suits', did you mean 'suites'?\n")
    (tmp_path / "night.yaml").write_text("name: n\nsuites: [quickstart]\n")
    (tmp_path / "priced.yaml").write_text("name: n\nsuites: [quickstart]\nprices: p.yaml\n")
    assert main(["check", str(tmp_path / "priced.yaml"), str(tmp_path / "night.yaml")]) == 2
    told = capsys.readouterr().err
    assert (
        "p.yaml: there is no such file" in told and f"or leave prices out of {tmp_path}/priced.yaml" in told
    )
    assert "night.yaml: ok, a nightly of 1 cell" in told and "SLICEBENCH_PRICES" not in told


def test_a_night_whose_alerts_nobody_would_get_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_HOOK", raising=False)
    file = tmp_path / "night.yaml"
    file.write_text("name: n\nsuites: [quickstart]\noutput: runs\nalerts: {webhooks: [{url_env: NO_HOOK}]}\n")
    assert main(["nightly", str(file), "--direct"]) == 2
    assert "the webhook in $NO_HOOK is not there" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def file(tmp_path: Path, server: PrefectStub, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A nightly, and a server with its deployment."""
    monkeypatch.setattr("flows.recorded_through.LOOK_S", 0.01)
    server.deployments["nightly/weeknights"] = "d2"
    path = tmp_path / "night.yaml"
    path.write_text("name: n\nsuites: [quickstart]\noutput: runs\nenv: [PACE]\nenv_file: [./more.env]\n")
    (tmp_path / "more.env").write_text("OF_ITSELF=1\nTOKEN\n")
    return path


def _write(file: Path, **fields: Any) -> None:
    folder = file.parent / "runs" / "n-20261130"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "night.json").write_text(json.dumps({"cells": [CELL], "exit_code": None} | fields))


def _play(file: Path, *more: str) -> int:
    return main(["nightly", str(file), "--night", "2026-11-30", *more])


def test_where_a_server_is_up_a_night_is_a_flow_run_of_it(
    file: Path, server: PrefectStub, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(file, exit_code=3, summary=["of an earlier pass"])
    looks: list[int] = []

    def goes_on() -> bool:
        looks.append(1)
        if len(looks) == 5:
            _write(file)
        if len(looks) == 6:
            _write(file, exit_code=4, summary=["REGRESSED: one"], site="/site")
            server.end("FAILED", "REGRESSION: one")
        return False

    server.on_start = lambda flow_run: server.end("RUNNING")
    server.away = goes_on
    assert _play(file, "--json") == 4
    out, err = capsys.readouterr()
    (asked,) = [body for _, path, body in server.calls if path == "deployments/d2/create_flow_run"]
    assert asked["parameters"] == {"file": str(file), "night": "2026-11-30"}
    assert (
        "/runs/flow-run/f1" in err and "the value of TOKEN, PACE is taken from the environment of the" in err
    )
    assert err.count("quickstart · local · pinned: passed") == 1
    assert err.splitlines()[-3:] == [
        "REGRESSED: one",
        "series: /site/index.html",
        f"report: {file.parent}/runs/n-20261130/report.html",
    ]
    assert json.loads(out)["exit_code"] == 4


def test_a_record_that_cannot_be_read_for_a_while_is_told_once_and_the_night_followed_on(
    file: Path, server: PrefectStub, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[int] = []
    record = file.parent / "runs" / "n-20261130" / "night.json"

    def goes_on() -> bool:
        looks.append(1)
        if len(looks) == 3:
            record.mkdir(parents=True)  # which no file can be read of
        if len(looks) == 6:
            record.rmdir()
            _write(file, exit_code=0)
            server.end("COMPLETED", "DONE: ")
        return False

    server.on_start = lambda flow_run: server.end("RUNNING")
    server.away = goes_on
    assert _play(file) == 0
    told = capsys.readouterr().err
    assert told.count("night.json: Is a directory; the night goes on by itself") == 1
    assert told.count("what the night writes can be read again") == told.count("local · pinned: passed") == 1


@pytest.mark.parametrize(
    ("state", "message", "code", "told"),
    [
        ("FAILED", "BAD_INPUT: the history is not writable", 2, "the history is not writable"),
        ("CRASHED", "its process is gone", 3, "its process is gone"),
        ("CANCELLED", "", 130, "interrupted; to go on, run the same command"),
    ],
)
def test_a_flow_run_that_came_to_nothing_is_told_and_no_earlier_pass_for_it(
    file: Path,
    server: PrefectStub,
    capsys: pytest.CaptureFixture[str],
    state: str,
    message: str,
    code: int,
    told: str,
) -> None:
    _write(file, exit_code=0, summary=["of an earlier pass"])
    server.on_start = lambda flow_run: server.end(state, message)
    assert _play(file) == code
    err = capsys.readouterr().err
    assert told in err and "earlier pass" not in err and "report:" not in err


def test_ctrl_c_cancels_the_flow_run(
    file: Path, server: PrefectStub, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> bool:
        if server.flow_run.get("state", {}).get("type") == "RUNNING" and not asked:
            asked.append(1)
            os.kill(os.getpid(), signal.SIGINT)
        return False

    asked: list[int] = []
    server.on_start = lambda flow_run: server.end("RUNNING")
    server.away = interrupted
    assert _play(file) == 130
    assert "cancelling; waiting until everything is given back" in capsys.readouterr().err
    assert server.flow_run["state"]["type"] == "CANCELLED"


@pytest.mark.parametrize("how", ["no deployment", "elsewhere", "--direct"])
def test_else_it_is_played_here(
    file: Path,
    server: PrefectStub,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    if how == "no deployment":
        del server.deployments["nightly/weeknights"]
    if how == "elsewhere":
        monkeypatch.setenv("PREFECT_API_URL", "http://far.invalid/api")
    record = NightRecord("n", "2026-11-30", 1.0, exit_code=3, summary=["played"])
    monkeypatch.setattr("tasks.stages.nightly.play_night", lambda *given: record)
    assert _play(file, *(["--direct"] if how == "--direct" else [])) == 3
    err = capsys.readouterr().err
    assert "played\n" in err and not server.flow_run
    assert ("the night runs here" in err) == (how != "--direct")


def test_what_cannot_start_is_refused_before_a_server_hears_of_it(file: Path, server: PrefectStub) -> None:
    file.write_text("name: n\nsuites: [nosuch]\n")
    assert _play(file) == 2
    assert server.calls == []
