"""A run that was killed: whoever finds its lease writes how it ended into its folder, and never over its own word."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.names import STAGES
from tasks.cloud.storage import Folder, open_folder
from tasks.leases import steps
from tasks.leases.claim import claim
from tasks.leases.death import record_death
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.finding import Finding
from tasks.leases.inventory import Inventories
from tasks.leases.lease import Lease, State
from tasks.leases.outcome import begin_pass
from tasks.leases.owner import this_process
from tasks.leases.reaper import reap

DEAD = replace(this_process(), pid=4711, started_at=0.5, host=os.uname().nodename)
HOST = DEAD.host


def open_run(uri: str, finished: int = 3) -> Folder:
    """Returns the folder of a run that finished so many stages."""
    folder = open_folder(uri)
    request = {"suite_name": "quickstart", "target": "local", "created_at": 900.0}
    folder.write("request.json", json.dumps(request).encode())
    for place, stage in enumerate(STAGES[:finished]):
        folder.write(f"stages/{stage}.json", json.dumps({"finished_at": 1000.0 + place}).encode())
    return folder


def outcome(folder: Folder) -> dict[str, Any]:
    return dict(json.loads(folder.read("outcome.json") or b"{}"))


def dead(ledger: DirectoryLedger, folder: Folder, **changes: Any) -> Lease:
    """Leaves a lease that a process which is gone held."""
    lease = replace(steps.plan("r1", "r1", 1, DEAD, 1100.0, 1280.0), folder=folder.uri, **changes)
    return ledger.write(lease)


@pytest.fixture
def sweep_up(ledger: DirectoryLedger, inventories: Inventories) -> Callable[..., list[Finding]]:
    return lambda **more: reap(ledger, inventories, **{"confirm_s": 0.0, "now": lambda: 1200.0, **more})


@pytest.fixture(params=["path", "gs"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "path":
        return str(tmp_path / "runs" / "r1")
    return f"{request.getfixturevalue('gcs_bucket')}/runs/r1"


def test_the_reaper_tells_how_the_run_ended(
    uri: str, ledger: DirectoryLedger, sweep_up: Callable[..., list[Finding]]
) -> None:
    folder = open_run(uri)
    begin_pass(folder, 1040.0)
    dead(ledger, folder)
    assert [found.did for found in sweep_up(dry_run=True)] == ["would release"]
    assert folder.read("outcome.json") is None, "a dry run tells nothing"
    (found,) = sweep_up()
    cause = f"slicebench's process 4711 on {HOST} was killed during RUN"
    assert (found.did, cause in found.why) == ("released", True)
    assert outcome(folder) == {
        "run_id": "r1",
        "suite": "quickstart",
        "target": "local",
        "exit_code": 3,
        "verdict": None,
        "causes": [cause],
        "trouble": None,
        "report": None,
        "finished_at": 1100.0,
        "took_s": 60.0,
    }
    assert sweep_up() == []


def test_a_process_that_really_is_killed(
    tmp_path: Path, ledger: DirectoryLedger, inventories: Inventories
) -> None:
    folder = open_run(str(tmp_path / "r1"), finished=0)
    pid = os.fork()
    if pid == 0:
        claim(ledger, inventories, "r1", "r1", folder=folder.uri)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert [found.did for found in reap(ledger, inventories)] == ["released"]
    assert outcome(folder)["causes"] == [f"slicebench's process {pid} on {HOST} was killed during BUILD"]


def test_a_run_that_goes_on_is_not_told_dead_by_the_lease_of_what_it_began_to_make_before(
    uri: str, ledger: DirectoryLedger, sweep_up: Callable[..., list[Finding]]
) -> None:
    folder = open_run(uri)
    begin_pass(folder, 1040.0)
    dead(ledger, folder, name="cluster-c_p", lease_id="cluster-c_p-e1")
    begin_pass(folder, 1150.0)
    (found,) = sweep_up()
    assert (found.did, "killed" in found.why, outcome(folder)) == ("released", False, {})


def test_what_the_run_said_itself_stays(
    uri: str, ledger: DirectoryLedger, sweep_up: Callable[..., list[Finding]]
) -> None:
    folder = open_run(uri)
    folder.write("outcome.json", b'{"exit_code": 130}')
    dead(ledger, folder)
    (found,) = sweep_up()
    assert (found.did, "killed" in found.why) == ("released", False)
    assert outcome(folder) == {"exit_code": 130}


def test_a_run_that_lives_tells_itself(
    tmp_path: Path, ledger: DirectoryLedger, inventories: Inventories
) -> None:
    folder = open_run(str(tmp_path / "r1"))
    holding = claim(ledger, inventories, "r1", "r1", folder=folder.uri)
    assert holding.release("the run is over").lease.state is State.GONE
    reap(ledger, inventories)
    assert folder.read("outcome.json") is None


def test_a_folder_that_was_deleted_is_not_made_anew(
    tmp_path: Path, ledger: DirectoryLedger, sweep_up: Callable[..., list[Finding]]
) -> None:
    dead(ledger, open_folder(str(tmp_path / "gone" / "r1")))
    assert [found.did for found in sweep_up()] == ["released"]
    assert not (tmp_path / "gone").exists()


def test_a_storage_that_fails_keeps_nothing_from_going_back_and_is_told(
    tmp_path: Path, ledger: DirectoryLedger, sweep_up: Callable[..., list[Finding]]
) -> None:
    (tmp_path / "r1").mkdir()
    (tmp_path / "r1" / "request.json").mkdir()
    dead(ledger, open_folder(str(tmp_path / "r1")))
    (found,) = sweep_up()
    assert found.did == "released"
    assert f"could not be written to {tmp_path}/r1: " in found.why


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"boot_id": "before"}, f"on {HOST} ended during RUN, when that machine was restarted"),
        ({"host": "laptop"}, "on laptop fell silent during RUN: it was killed, or its machine was cut off"),
    ],
)
def test_no_more_is_said_than_is_known(
    tmp_path: Path,
    ledger: DirectoryLedger,
    sweep_up: Callable[..., list[Finding]],
    changes: dict[str, str],
    said: str,
) -> None:
    folder = open_run(str(tmp_path / "r1"))
    owner = replace(DEAD, **changes)  # type: ignore[arg-type]
    dead(ledger, folder, owner=owner, held_by=owner)
    sweep_up(now=lambda: 9999.0)
    assert said in outcome(folder)["causes"][0]


def test_a_run_killed_after_its_hardware_was_back_is_told_as_well(
    tmp_path: Path, ledger: DirectoryLedger, sweep_up: Callable[..., list[Finding]]
) -> None:
    folder = open_run(str(tmp_path / "r1"), finished=len(STAGES))
    dead(ledger, folder, state=State.GONE, owner=None)
    (found,) = sweep_up()
    assert (found.did, found.exit_code) == ("told", 0)
    assert outcome(folder)["causes"][0].endswith("was killed after TEARDOWN, in compare or report")
    assert sweep_up() == []


@pytest.mark.parametrize("now", [1200.0, 1100.0 + 2 * 86400.0])
def test_of_a_lease_in_order_nothing_is_said_where_nothing_is_known(
    tmp_path: Path, ledger: DirectoryLedger, sweep_up: Callable[..., list[Finding]], now: float
) -> None:
    folder = open_run(str(tmp_path / "r1"), finished=len(STAGES))
    held_by = replace(DEAD, host="laptop") if now == 1200.0 else DEAD
    dead(ledger, folder, state=State.GONE, owner=None, held_by=held_by)
    assert sweep_up(now=lambda: now) == []
    assert folder.read("outcome.json") is None


def test_a_reaper_that_is_killed_leaves_the_telling_to_the_next(
    tmp_path: Path, ledger: DirectoryLedger, sweep_up: Callable[..., list[Finding]]
) -> None:
    folder = open_run(str(tmp_path / "r1"))
    other = replace(DEAD, pid=99)
    ledger.write(steps.releasing(dead(ledger, folder), other, 1150.0, "its owner is gone"))
    assert [found.did for found in sweep_up()] == ["released"]
    assert "process 4711 on" in outcome(folder)["causes"][0], "the run's process, not the reaper's"


def test_a_run_that_is_resumed_first_tells_how_its_dead_self_ended(
    tmp_path: Path, ledger: DirectoryLedger, inventories: Inventories
) -> None:
    folder = open_run(str(tmp_path / "r1"))
    dead(ledger, folder)
    holding = claim(ledger, inventories, "r1", "r1", folder=folder.uri)
    assert (holding.lease.epoch, holding.lease.held_by == holding.lease.owner) == (1, True)
    assert "was killed during RUN" in outcome(folder)["causes"][0]


def test_a_lease_of_no_run_has_nothing_to_tell(ledger: DirectoryLedger, tmp_path: Path) -> None:
    folder = open_run(str(tmp_path / "r1"))
    assert record_death(dead(ledger, folder, run_id=None)) == ""
    assert record_death(replace(steps.plan("r1", "r1", 1, DEAD, 0.0, None), folder="")) == ""
