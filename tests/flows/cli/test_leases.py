"""`slicebench leases` and `slicebench reap`, as a user runs them: words, JSON, exit codes, and no Prefect."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from runtime.contract.errors import ExitCode
from runtime.contract.process import started_at
from tasks.config.home import ledger_folder, runs_folder, scratch_folder
from tasks.leases import steps
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.finding import Judgement
from tasks.leases.holding import Holding
from tasks.leases.inventory import open_inventories
from tasks.leases.lease import Lease, State
from tasks.leases.presently import Present
from tasks.leases.resource import Resizing, ResourceRef
from tasks.leases.standing import would_put_back
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]


@pytest.fixture
def ledger() -> DirectoryLedger:
    return DirectoryLedger(ledger_folder())


@pytest.fixture
def holding(ledger: DirectoryLedger) -> Holding:
    return claim(ledger, open_inventories(ledger, scratch_folder()), "run", "run")


def kill_owner(ledger: DirectoryLedger) -> None:
    lease = ledger.read("run-e1")
    assert lease is not None
    assert lease.owner is not None
    ledger.write(replace(lease, owner=replace(lease.owner, started_at=0.5)))


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main([*words, "--json"])
    shown = capsys.readouterr()
    assert shown.err == ""
    return code, json.loads(shown.out)


def test_of_a_lease_with_many_things_a_line_tells_how_many_of_each_kind(
    holding: Holding, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(13):
        holding.adopt("directory", "here", f"/nowhere/{number}", "1")
    assert main(["leases"]) == 0
    told = capsys.readouterr().out
    assert "13 × directory, all by name with --json" in told and "/nowhere" not in told
    _, rows = as_json(capsys, "leases")
    assert "/nowhere/12" in json.dumps(rows)


def test_nothing_held(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["leases"]), main(["reap"]), main(["reap", "--dry-run"])) == (0, 0, 0)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "nothing is held" in shown.err
    assert "an environment has a record of its own: `slicebench env plan FILE`" in shown.err
    assert "nothing to reap" in shown.err
    assert not ledger_folder().exists(), "looking makes nothing"


def test_who_holds_what(
    ledger: DirectoryLedger, holding: Holding, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["leases"]) == 0
    shown = capsys.readouterr().out
    assert "run-e1  planned" in shown
    assert f"process {os.getpid()} on" in shown
    assert "fine: " in shown
    code, content = as_json(capsys, "leases")
    assert (code, [lease["lease_id"] for lease in content["leases"]]) == (0, ["run-e1"])
    assert content["leases"][0]["reaper"]["act"] == "keep"
    holding.release("done")
    assert as_json(capsys, "leases")[1]["leases"] == []
    assert [lease["state"] for lease in as_json(capsys, "leases", "--all")[1]["leases"]] == ["gone"]


@pytest.mark.parametrize(
    ("output", "words"), [("/elsewhere/runs", "r1 --output /elsewhere/runs"), (None, "")]
)
def test_a_run_that_lies_elsewhere_is_told_with_its_output(
    output: str | None,
    words: str,
    ledger: DirectoryLedger,
    holding: Holding,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = f"{output or runs_folder()}/r1"
    ledger.write(steps.serve(holding.lease, "r1", folder))
    assert main(["leases"]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "its run" in line]
    assert told == ([f"    its run: {words}"] if words else [])


def test_reap_kills_what_a_dead_run_left_and_dry_run_does_not(
    ledger: DirectoryLedger, holding: Holding, capsys: pytest.CaptureFixture[str]
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"],
        env={**os.environ, **holding.labels},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    kill_owner(ledger)
    code, content = as_json(capsys, "reap", "--dry-run")
    assert (code, content["dry_run"]) == (0, True)
    assert [finding["did"] for finding in content["findings"]] == ["would release"]
    assert started_at(process.pid) is not None
    assert main(["reap"]) == 0
    shown = capsys.readouterr().out
    assert "run-e1: released: " in shown
    assert f"process pid {process.pid}" in shown
    assert process.wait(PATIENCE_S) < 0
    process.stdout.close()
    lease = ledger.read("run-e1")
    assert lease is not None
    assert lease.state is State.GONE


def test_what_leaked_is_told_each_time_with_its_exit_code(
    ledger: DirectoryLedger, holding: Holding, capsys: pytest.CaptureFixture[str]
) -> None:
    lease = steps.releasing(holding.lease, holding.lease.owner, 0.0, "x")  # type: ignore[arg-type]
    ledger.write(steps.leaked(lease, "node n0 is still there"))
    assert main(["leases"]) == ExitCode.LEAKED
    assert "leaked before: node n0 is still there" in capsys.readouterr().out


def test_a_torn_file_is_told_and_kept(
    ledger: DirectoryLedger, holding: Holding, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ledger_folder() / "run-e1.json"
    file.write_text("{")
    for words in (["leases"], ["reap"]):
        assert main(words) == ExitCode.INFRASTRUCTURE
        assert f"{file} is not a whole lease" in "".join(capsys.readouterr())
    assert file.read_text() == "{"


@pytest.mark.parametrize("words", [["leases"], ["reap"]])
def test_neither_imports_prefect_or_jax(words: list[str]) -> None:
    code = (
        "import sys; from flows.cli.main import main; main(sys.argv[1:]); "
        "sys.exit(', '.join({'prefect', 'jax', 'pandas'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr


def test_a_lease_that_has_expired_says_how_long_ago(
    ledger: DirectoryLedger, holding: Holding, capsys: pytest.CaptureFixture[str]
) -> None:
    lease = ledger.read("run-e1")
    assert lease is not None
    ledger.write(replace(lease, expires_at=1.0))
    main(["leases", "--all"])
    told = capsys.readouterr().out
    assert re.search(r"expired \d+ d ago", told), told
    assert "expires in" not in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (Resizing(5, 2), "5 machines were asked for; until they are there, 2 are kept"),
        (Resizing(2, 2), "only 2 machines are to stay"),
    ],
)
def test_a_size_that_is_being_changed_is_told_and_what_would_become_of_it(
    ledger: DirectoryLedger, holding: Holding, capsys: pytest.CaptureFixture[str], change: Resizing, told: str
) -> None:
    ref = holding.create("gke_node_pool", "p/l/c", "np-0", lambda: "uid")
    holding.resize(ref, change)
    holding.stand(None)
    assert main(["leases"]) == 0
    assert f"gke_node_pool np-0 in p/l/c ({told})" in capsys.readouterr().out
    code, content = as_json(capsys, "leases")
    [one] = content["leases"][0]["resources"]
    assert (code, one["resizing"]) == (0, {"to": change.to, "back": 2})
    asked = "" if change.back == change.to else ", not the 5 that were asked for"
    would = would_put_back(holding.lease, Judgement("put back", "it is gone"))
    assert would.why == f"it is gone: it would be kept as before, and np-0 has 2 machines{asked}"


def test_what_is_gone_for_good_is_forgotten_and_told(
    ledger: DirectoryLedger, holding: Holding, capsys: pytest.CaptureFixture[str]
) -> None:
    holding.create("host_process", "me@gone:22", "supervisor", lambda: "1@1.00@boot")
    kill_owner(ledger)
    assert main(["reap", "--forget", "host_process"]) == ExitCode.BAD_INPUT
    assert "--forget is for one lease" in capsys.readouterr().err
    assert main(["reap", "--lease", "run", "--forget", "tpu_node"]) == ExitCode.BAD_INPUT
    assert "made no tpu_node: it has host_process me@gone:22 supervisor" in capsys.readouterr().err
    assert main(["reap", "--lease", "run", "--forget", "me@gone:22"]) == 0
    assert "run-e1: released: asked for by name; forgotten by " in capsys.readouterr().out
    main(["leases", "--all"])
    assert "forgotten: host_process me@gone:22 supervisor: not seen to be gone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "run_id", "there", "column", "words"),
    [
        ("workload-w-0", None, Present("there"), "live", "fine: goes on by itself"),
        (
            "workload-w-0",
            None,
            Present("ended", "", 2e12),
            "ended",
            "fine: it has ended, and stays to be read",
        ),
        (
            "workload-w-0",
            None,
            Present("gone"),
            "gone",
            "reapable: it has ended, and its cluster took it away",
        ),
        (
            "workload-w-0",
            None,
            Present("unknown", "no answer"),
            "unknown",
            "still there is not known: no answer",
        ),
        ("r", "r", Present("ended"), "ended", "its workload has ended: slicebench run --resume r"),
        ("r", "r", Present("gone", "it is deleted"), "gone", "it is deleted: slicebench run --resume r"),
        (
            "cluster-c_p",
            None,
            Present("gone", "it is deleted"),
            "gone",
            "it is deleted: slicebench reap --lease cluster-c",
        ),
    ],
)
def test_what_goes_on_by_itself_is_told_as_its_cluster_tells_it_with_where_that_is(
    name: str,
    run_id: str | None,
    there: Present,
    column: str,
    words: str,
    ledger: DirectoryLedger,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ref = ResourceRef("jobset", "context c#0a1b2c3d of /k/default", "w", "uid")
    lease = Lease(f"{name}-e1", name, run_id, 1, None, State.LIVE, 0.0, None, resources=(ref,))
    ledger.write(lease)
    monkeypatch.setattr("tasks.leases.presently.presently", lambda *asked: {lease.lease_id: there})
    assert main(["leases"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{name}-e1  {column}  no owner") and words in shown
    assert "jobset w in context c of /k/default\n" in shown
    [row] = as_json(capsys, "leases")[1]["leases"]
    assert (row["state"], row["presently"]["state"]) == ("live", there.state)
