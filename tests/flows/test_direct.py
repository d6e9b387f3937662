"""A run without Prefect, with stand-ins for its stages: as through Prefect, and nothing of it is imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from runtime.contract.errors import InfrastructureError, WorkloadFailed
from tasks.config.home import ledger_folder
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.lease import State
from tasks.leases.resource import ResourceRef
from tests.flows.stage_stubs import STAGES, Stages
from tests.waiting import PATIENCE_S


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    return Stages(monkeypatch)


def start(tmp_path: Path, *words: str) -> int:
    return main(["run", "quickstart", "--direct", "--output", str(tmp_path), "--run-id", "r", *words])


def outcome(tmp_path: Path) -> dict[str, Any]:
    return dict(json.loads((tmp_path / "r" / "outcome.json").read_text()))


def all_given_back() -> bool:
    found = DirectoryLedger(ledger_folder()).listing().leases
    return bool(found) and all(lease.state is State.GONE for lease in found)


def test_the_stages_come_in_order_and_are_logged(
    stages: Stages, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(tmp_path, "--json") == 0
    assert stages.called == STAGES
    told = capsys.readouterr()
    assert json.loads(told.out)["verdict"] == "NO_BASELINE" and "Prefect" not in told.err
    log = (tmp_path / "r" / "run.log").read_text().splitlines()
    assert [line.partition(" ")[2] for line in log] == [f"this is {name}" for name in STAGES]
    assert all_given_back()


@pytest.mark.parametrize(
    ("stage", "error", "code"),
    [("provision", InfrastructureError("no machines"), 3), ("run", WorkloadFailed("wrong data"), 1)],
)
def test_teardown_comes_after_a_stage_that_failed(
    stages: Stages, tmp_path: Path, stage: str, error: BaseException, code: int
) -> None:
    stages.raises[stage] = error
    assert start(tmp_path) == code
    assert stages.called[-1] == "teardown" and outcome(tmp_path)["causes"] == [str(error)]
    assert all_given_back()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_everything_back(
    stages: Stages, tmp_path: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    def strike() -> None:
        if stages.called[-1] == "run":
            os.kill(os.getpid(), number)

    stages.on_call = strike
    assert start(tmp_path) == 130
    assert stages.called == [*STAGES[: STAGES.index("run") + 1], "teardown"]
    assert outcome(tmp_path)["causes"] == ["interrupted"]
    assert "--resume r" in capsys.readouterr().err
    assert all_given_back()


@pytest.mark.parametrize("standing", [False, True])
def test_the_third_signal_is_obeyed_wherever_it_comes(
    stages: Stages, tmp_path: Path, capsys: pytest.CaptureFixture[str], standing: bool
) -> None:
    def thrice() -> None:  # as a workload does that cannot be stopped: its cluster is away
        if stages.called[-1] == "run":
            if standing:
                ledger = DirectoryLedger(ledger_folder())
                made = (ResourceRef("jobset", "here", "sb-r-e1", "uid"),)
                ledger.write(replace(ledger.listing().leases[0], resources=made))
            for _ in range(3):
                with suppress(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
            raise KeyboardInterrupt

    stages.on_call = thrice
    assert start(tmp_path) == (5 if standing else 130)
    assert "teardown" not in stages.called
    told = capsys.readouterr().err
    assert told.index("SIGINT: ending") < told.index("once more: hurry") < told.index("does what is left\n")
    left = "1 resource (jobset sb-r-e1) may still be there; `slicebench reap` gives back what is left"
    assert (left in told) is standing


def test_a_bug_is_told_and_everything_is_given_back(stages: Stages, tmp_path: Path) -> None:
    stages.raises["upload"] = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug"):
        start(tmp_path)
    assert outcome(tmp_path)["causes"] == ["slicebench itself failed: ValueError: a bug"]
    assert all_given_back()


def test_a_run_goes_on_directly_whichever_way_it_began(stages: Stages, tmp_path: Path) -> None:
    stages.raises["provision"] = InfrastructureError("no machines")
    assert start(tmp_path) == 3
    stages.raises.clear()
    again = ["run", "--resume", "r", "--output", str(tmp_path), "--direct"]
    assert main(again) == 0
    assert stages.called.count("report") == 1


def test_a_server_that_is_up_is_not_asked(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    assert start(tmp_path) == 0
    assert stages.called == STAGES


def test_nothing_of_prefect_is_imported() -> None:
    script = "import flows.direct, sys; print(sorted(name for name in sys.modules if 'prefect' in name))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.strip() == "[]", done.stderr
