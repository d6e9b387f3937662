"""`slicebench acceptance`: a flow run where a server is up, else played here; refused before either hears of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli.main import main
from tasks.leases.lease import Lease, Owner, State
from tasks.leases.opening import the_ledger
from tasks.leases.resource import ResourceRef
from tasks.stages.acceptance_record import AcceptanceRecord
from tests.flows.prefect_stub import PrefectStub

RUN = {"title": "none · 1", "status": "failed", "cause": "it began anew", "runs": [{}]}


@pytest.fixture
def file(tmp_path: Path, server: PrefectStub, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An acceptance, and a server with its deployment."""
    monkeypatch.setattr("flows.recorded_through.LOOK_S", 0.01)
    server.deployments["acceptance/adhoc"] = "d3"
    (tmp_path / "env").write_text("PACE\n")
    path = tmp_path / "a.yaml"
    path.write_text(
        "{name: a, output: ./runs, env_file: [./env], set: [benchmarks.0.options.train_steps=200], "
        "variants: [{name: none}, {name: idle, encryption: {enabled: false}}]}\n"
    )
    return path


def _write(file: Path, **fields: object) -> None:
    folder = file.parent / "runs" / "a-x"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "acceptance.json").write_text(json.dumps({"cells": [RUN], "exit_code": None} | fields))


def test_where_a_server_is_up_it_is_a_flow_run_of_it(
    file: Path, server: PrefectStub, capsys: pytest.CaptureFixture[str]
) -> None:
    def ends(flow_run: object) -> None:
        _write(file, exit_code=1, summary=["a table", "verdict: refused"], troubles=["t"])
        server.end("FAILED", "WORKLOAD_FAILED: it began anew")

    _write(file, exit_code=3, summary=["of an earlier pass"])
    server.on_start = ends
    assert main(["acceptance", str(file), "--id", "x", "--json"]) == 1
    out, err = capsys.readouterr()
    (asked,) = [body for _, path, body in server.calls if path == "deployments/d3/create_flow_run"]
    assert (asked["name"], asked["parameters"]) == ("a x", {"file": str(file), "id": "x"})
    assert "the value of PACE is taken from" in err and "none · 1: failed: it began anew" in err
    report = f"report: {file.parent}/runs/a-x/report.html"
    assert err.splitlines()[-4:] == ["a table", "verdict: refused", "t", report]
    assert "earlier pass" not in err
    assert json.loads(out)["exit_code"] == 1


def test_else_it_is_played_here(
    file: Path, server: PrefectStub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://far.invalid/api")
    record = AcceptanceRecord("a", "x", "d", 1.0, exit_code=4, summary=["played"])
    monkeypatch.setattr("tasks.stages.acceptance.play_acceptance", lambda *given: record)
    assert main(["acceptance", str(file), "--id", "x"]) == 4
    told = capsys.readouterr().err
    assert "as the files of an acceptance are; the acceptance runs here" in told and "played\n" in told


@pytest.mark.parametrize("state", ["live", "releasing", "gone", "kept", "another's"])
def test_who_does_not_wait_until_all_is_given_back_is_told_what_is_left(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    ref = ResourceRef("directory", "here", "scratch", "u1")
    # Ids may have hyphens: those of another session can begin as ours.
    run = "a-x-y-none-1" if state == "another's" else "a-x-none-1"
    owner = None if state == "kept" else Owner("h", "b", "p", 1, 1.0, "u", "c")
    known = State.LIVE if state in ("kept", "another's") else State(state)
    lease = Lease(
        f"{run}-e1", run, run, 1, owner, known, 1.0, 9e9, (ref,), folder=f"{file.parent}/runs/{run}"
    )

    def interrupted(*given: object) -> None:
        the_ledger().write(lease)
        _write(file, exit_code=130)
        raise KeyboardInterrupt

    monkeypatch.setattr("tasks.stages.acceptance.play_acceptance", interrupted)
    left = state in ("live", "releasing")
    assert main(["acceptance", str(file), "--id", "x", "--direct", "--json"]) == (5 if left else 130)
    out, err = capsys.readouterr()
    assert "interrupted; to go on, run the same command" in err
    told = f"{run} still has 1 resource (directory scratch); see `slicebench leases`, then `slicebench reap`"
    assert (told in err) == left
    assert json.loads(out)["exit_code"] == (5 if left else 130)


def test_what_is_wrong_is_refused_before_a_server_hears_of_it(
    file: Path, server: PrefectStub, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text().replace("train_steps=200", "train_steps=2"))
    assert main(["acceptance", str(file)]) == 2
    assert server.calls == []
