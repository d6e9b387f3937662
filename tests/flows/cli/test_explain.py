"""`slicebench explain` on runs that ended, failed, or were left by a process that is gone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from runtime.contract.progress import Init, Started, encode
from tasks.leases import steps
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.opening import the_ledger
from tasks.leases.owner import this_process

CAUSE = "benchmark 1 of 2 (Save) failed: worker 1 was killed by SIGKILL while in save"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path))
    monkeypatch.delenv("SLICEBENCH_LEDGER", raising=False)
    return tmp_path


def leave(home: Path, **files: Any) -> Path:
    folder = home / "runs" / "r1"
    folder.mkdir(parents=True)
    everything = {"request": {"suite_name": "s", "target": "local", "created_at": 5.0}, **files}
    for name, content in everything.items():
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1))
    (folder / "run.log").write_text("2 workers x 2 cpu devices = 4\n")
    return folder


def explained(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["explain", "r1", "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


@pytest.mark.parametrize("word", ["r1", "kept", "kept-e1"])
def test_a_run_elsewhere_is_found_by_its_lease(
    home: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    folder = leave(home / "elsewhere", outcome={"causes": [CAUSE], "exit_code": 1, "finished_at": 9.0})
    ledger = the_ledger()
    ledger.write(steps.serve(steps.plan("kept", "r0", 1, None, 0.0, None), "r1", str(folder)))
    for command in ("explain", "logs"):
        assert main([command, word]) == 0
        shown = capsys.readouterr()
        assert "r1" in shown.out + shown.err
        assert main([command, word, "--output", str(home)]) == 2, "it is looked for where one was told to"
        assert main([command, "other"]) == 2


def test_a_failed_run_names_its_cause_with_file_and_line(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(home, outcome={"causes": [CAUSE], "exit_code": 1, "finished_at": 9.0})
    told = explained(capsys)
    assert told["state"] == "failed" and told["likely"][0]["name"] == "worker_killed"
    assert told["causes"][0]["place"]["line"] == 3
    assert main(["explain", "r1"]) == 0
    assert "outcome.json:3" in capsys.readouterr().out


def test_what_kueue_never_queued_is_told_as_that(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = {"causes": ["it waited 9 s"], "exit_code": 3, "finished_at": 9.0, "trouble": "unqueued"}
    leave(home, outcome=outcome)
    [likely] = explained(capsys)["likely"]
    assert (likely["name"], likely["evidence"][0]["text"]) == ("no_workload", "it waited 9 s")


@pytest.mark.parametrize(
    ("scope", "flags", "links"),
    [
        ("context kind-bench#0d5e8f21/team", ["--context", "kind-bench", "--namespace", "team"], 0),
        (
            "cluster bench#0d5e8f21 of mine in us-east5-b/default",
            ["--cluster", "bench", "--location", "us-east5-b", "--project", "mine"],
            4,
        ),
    ],
)
def test_a_run_in_a_cluster_has_links_and_a_command_that_asks_there(
    home: Path, capsys: pytest.CaptureFixture[str], scope: str, flags: list[str], links: int
) -> None:
    ref = {"kind": "gke", "scope": scope, "name": "sb-r1-e1", "uid": "u", "attempt": 1}
    folder = leave(home, attempts=[{"n": 1, "ref": ref, "end": ""}])
    told = explained(capsys)
    asks = " ".join(["slicebench workload explain sb-r1-e1", *flags])
    assert f"{asks}   # what its cluster says" in told["next"]
    assert len(told["links"]) == links
    assert all("mine" in link for _, link in told["links"])
    (folder / "outcome.json").write_text(json.dumps({"causes": [], "exit_code": 3, "finished_at": 9.0}))
    told = explained(capsys)
    assert len(told["links"]) == links
    assert not [command for command in told["next"] if asks in command], "nothing may be left there"


def test_a_run_that_passed_has_no_trouble(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave(home, outcome={"causes": [], "exit_code": 0, "finished_at": 9.0, "verdict": "PASS"})
    told = explained(capsys)
    assert told["state"] == "done" and not told["likely"]
    assert told["next"] == ["slicebench report r1"]


def test_a_run_that_the_reaper_found_killed_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    owner = replace(this_process(), pid=4711, started_at=0.5)
    folder = leave(home)
    for stage in ("build", "provision", "upload"):
        (folder / "stages").mkdir(exist_ok=True)
        (folder / "stages" / f"{stage}.json").write_text('{"finished_at": 6.0, "outputs": {}}')
    lease = replace(steps.plan("r1", "r1", 1, owner, 5.0, 180.0), folder=str(folder))
    DirectoryLedger(home / "ledger").write(lease)
    told = explained(capsys)
    assert (told["state"], told["likely"][0]["name"]) == ("dead", "slicebench_killed")
    assert main(["reap"]) == 0
    assert "r1-e1: released: " in (said := capsys.readouterr().out) and "was killed during RUN" in said
    told = explained(capsys)
    assert (told["state"], told["stage"], told["summary"]) == (
        "failed",
        "run",
        "it failed: exit code 3 (INFRASTRUCTURE)",
    )
    assert "process 4711 on" in told["causes"][0]["text"]
    assert told["likely"][0]["name"] == "slicebench_killed"
    assert told["next"][0].startswith("slicebench run --resume r1 ")
    assert sum("--resume r1" in command for command in told["next"]) == 1
    assert main(["runs", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["state"], run["exit_code"]) == ("done", 3)


def test_a_resumed_run_is_in_its_stage_since_its_pass_began_and_commands_lead_to_it_where_it_lies(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = leave(home, passes=[{"began_at": 5.0, "ended_at": 50.0}, {"began_at": 900.0, "ended_at": None}])
    (folder / "stages").mkdir()
    for stage, at in (("build", 6.0), ("provision", 901.0)):
        (folder / "stages" / f"{stage}.json").write_text(json.dumps({"finished_at": at}))
    assert (explained(capsys)["stage"], explained(capsys)["since"]) == ("upload", 901.0)
    (folder / "stages" / "provision.json").unlink()
    elsewhere = folder.rename(home / "r1").parent
    assert main(["explain", "r1", "--output", str(elsewhere), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["stage"], told["since"]) == ("provision", 900.0)
    assert told["next"] == [f"slicebench logs r1 --output {elsewhere} --follow"]


def test_without_lease_and_outcome_it_says_that_it_does_not_know(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(home)
    told = explained(capsys)
    assert (told["state"], told["stage"], told["since"]) == ("unknown", "build", 5.0)
    assert "ps -ef" in told["unknown"][0]


def test_a_going_run_says_which_worker_is_missing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scratch = [home / "w0", home / "w1"]
    for folder in scratch:
        folder.mkdir()
        (folder / "stream.jsonl").write_text(encode(Started(1, 77), seq=1, at=6.0) + "\n")
    with (scratch[0] / "stream.jsonl").open("a") as stream:
        stream.write(encode(Init("begin"), seq=2, at=7.0) + "\n" + '{"seq":3,"at":8')
    ref = {"kind": "local", "scratch": [str(folder) for folder in scratch]}
    leave(home, attempts=[{"n": 1, "ref": ref, "end": "", "cause": ""}])
    ledger = DirectoryLedger(home / "ledger")
    ledger.write(steps.plan("r1", "r1", 1, this_process(), 5.0, None))
    told = explained(capsys)
    assert told["state"] == "going"
    assert told["likely"][0]["what"].startswith("jax.distributed is not complete: worker 1 is missing")
    assert [(seen["step"], seen["since"]) for seen in told["workers"]] == [("joining", 7.0), ("started", 6.0)]


def test_a_broken_outcome_is_told_as_broken(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (leave(home) / "outcome.json").write_text('{"causes": ["')
    assert any("outcome.json" in what for what in explained(capsys)["unknown"])
