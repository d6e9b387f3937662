"""`slicebench tpu …` against the stand-in, as a user runs it: made, shown, kept, given back; what others made stays."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from flows.cli import tpu as command
from flows.cli.main import main
from flows.cli.said import say
from runtime.contract.errors import ExitCode
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import NodeRequest
from tasks.config.home import scratch_folder
from tasks.leases.claim import latest
from tasks.leases.lease import State
from tasks.leases.reaper import reap
from tasks.stages.tpus import Office, key_file
from tests.cloud.tpu.leasing import QUICK, ZONE, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[3]
CREATE = ("tpu", "create", "mine", "--type", "v6e-16", "--zone", ZONE)


@pytest.fixture(autouse=True)
def quick(tpu_cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command as it is, in a hurry."""
    monkeypatch.setattr(command, "office", lambda project: hurried(project or "proj"))


def hurried(project: str) -> Office:
    ledger = a_ledger()
    tpu = CloudTpu(project, timing=QUICK)
    return Office(tpu, ledger, quick_inventories(ledger), scratch_folder(), say, poll_s=0.02)


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_made_shown_kept_and_given_back(tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CREATE, "--tier", "spot", "--ttl", "2h"]) == 0
    assert "give it back with: slicebench tpu delete mine" in capsys.readouterr().err
    told = as_json(capsys, "tpu", "status", "mine")
    assert (told["state"], told["kind"], told["lease_id"]) == ("READY", "node", "tpu-mine-e1")
    assert told["price_per_hour"] == 19.44
    assert 7000 < told["expires_at"] - time.time() <= 7200
    assert len(told["nodes"][0]["addresses"]) == 4
    asked = tpu_cloud.requests("CreateNode")[0]["request"]["node"]
    public = key_file(scratch_folder(), "mine").with_suffix(".pub").read_text().strip()
    assert asked["metadata"]["ssh-keys"] == f"slicebench:{public}"
    assert key_file(scratch_folder(), "mine").stat().st_mode & 0o777 == 0o600
    assert [one.did for one in reap(a_ledger(), quick_inventories(a_ledger()))] == ["kept"]
    assert main(["tpu", "delete", "mine"]) == 0
    assert "nothing is left" in capsys.readouterr().err
    assert tpu_cloud.inventory() == []
    assert not key_file(scratch_folder(), "mine").exists()


@pytest.mark.parametrize("more", [[], ["--no-wait"]])
def test_its_lease_says_what_it_is_and_costs(
    tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    tpu_cloud.set(stockouts=[] if more else [ZONE])
    assert main([*CREATE, "--zone", "europe-west4-a", "--tier", "spot", *more]) == 0
    capsys.readouterr()
    assert main(["leases"]) == 0
    per_chip = 1.215 if more else 1.037  # in the zone that was asked, and in the one that had room
    assert f"${16 * per_chip:.2f} an hour" in capsys.readouterr().out
    lease = latest(a_ledger(), "tpu-mine")
    assert lease is not None
    assert lease.shape == {"made_by": "tpu create", "type": "v6e-16", "slices": "1", "tier": "spot"}


def test_the_reaper_gives_it_back_when_its_time_is_over(tpu_cloud: Cloud) -> None:
    assert main([*CREATE, "--slices", "2", "--ttl", "1h"]) == 0
    [found] = reap(a_ledger(), quick_inventories(a_ledger()), now=lambda: time.time() + 3700)
    assert (found.did, tpu_cloud.inventory()) == ("released", [])


def test_a_queued_resource_is_one_thing_in_the_list(
    tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CREATE, "--slices", "2"]) == 0
    CloudTpu("proj", timing=QUICK).create_node(
        "us-east5-a", "other", NodeRequest("v6e-4", "v2-alpha-tpuv6e", {})
    )
    told = as_json(capsys, "tpu", "list")["tpus"]
    assert [(one["name"], one["kind"], len(one["nodes"])) for one in told] == [
        ("other", "node", 1),
        ("mine", "queued resource", 2),
    ]
    assert main(["tpu", "list"]) == 0
    shown = capsys.readouterr().out
    assert "not made by slicebench" in shown
    assert "lease tpu-mine-e1 of" in shown


def test_one_that_waits_in_the_queue_is_left_there_with_no_wait(
    tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    tpu_cloud.set(stockouts=[ZONE])
    assert main([*CREATE, "--queued", "--no-wait"]) == 0
    until(lambda: as_json(capsys, "tpu", "status", "mine")["state"] == "WAITING_FOR_RESOURCES")
    assert main(["tpu", "delete", "mine"]) == 0
    assert tpu_cloud.inventory() == []


def test_its_time_begins_when_it_may_come_up(tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CREATE, "--valid-after", "8h", "--ttl", "1h", "--no-wait"]) == 0
    left = as_json(capsys, "tpu", "status", "mine")["expires_at"] - time.time()
    assert 8.9 * 3600 < left <= 9 * 3600
    assert main(["tpu", "delete", "mine"]) == 0


def test_the_time_in_the_queue_is_limited(tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    tpu_cloud.set(stockouts=[ZONE])
    assert main([*CREATE, "--queued", "--queue-limit", "1s"]) == ExitCode.INFRASTRUCTURE
    assert "limits.queue_s passed" in capsys.readouterr().err
    assert tpu_cloud.inventory() == []


def test_what_ends_without_hardware_says_that_it_holds_quota(
    tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CREATE, "--slices", "2"]) == 0
    tpu_cloud.preempt("mine-0")
    until(lambda: as_json(capsys, "tpu", "status", "mine")["state"] == "SUSPENDED")
    assert "holds quota" in as_json(capsys, "tpu", "status", "mine")["note"]


def test_what_fails_on_the_way_leaves_nothing(tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    tpu_cloud.set(stockouts=[ZONE])
    assert main([*CREATE]) == ExitCode.INFRASTRUCTURE
    assert "no more capacity" in capsys.readouterr().err
    assert tpu_cloud.inventory() == []
    assert not key_file(scratch_folder(), "mine").exists()


def test_made_again_it_is_the_same_and_a_failure_then_takes_nothing_away(
    tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CREATE]) == 0
    there = tpu_cloud.inventory()
    assert main([*CREATE]) == 0
    assert main(["tpu", "create", "mine", "--type", "v6e-8", "--zone", ZONE]) == ExitCode.BAD_INPUT
    assert "'mine' is there already, as v6e-16" in capsys.readouterr().err
    tpu_cloud.fault("CreateNode", "error", code="PERMISSION_DENIED")
    assert main([*CREATE]) == ExitCode.INFRASTRUCTURE
    assert tpu_cloud.inventory() == there
    [found] = reap(a_ledger(), quick_inventories(a_ledger()))
    assert (found.did, "kept on purpose" in found.why) == ("kept", True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*CREATE[:3], "--type", "v6e-15", "--zone", ZONE), "did you mean one of v6e-4, v6e-8, v6e-16?"),
        (("tpu", "create", "My_TPU", *CREATE[3:]), "for example 'my-tpu'"),
        ((*CREATE, "--reservation", "r"), "belong together"),
        ((*CREATE, "--ttl", "soon"), "no length of time"),
        (("tpu", "status", "nobody"), "there is no TPU VM or queued resource 'nobody'"),
        (("tpu", "delete", "nobody"), "no lease of this ledger"),
    ],
)
def test_bad_input_makes_nothing(
    tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert main([*words]) == ExitCode.BAD_INPUT
    assert told in capsys.readouterr().err
    assert tpu_cloud.mutations() == []


def test_what_others_made_is_not_deleted(tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    CloudTpu("proj", timing=QUICK).create_node(ZONE, "mine", NodeRequest("v6e-4", "v2-alpha-tpuv6e", {}))
    assert main(["tpu", "delete", "mine"]) == ExitCode.BAD_INPUT
    assert main([*CREATE]) == ExitCode.INFRASTRUCTURE
    assert "not by slicebench" in capsys.readouterr().err
    assert len(tpu_cloud.inventory()) == 1


def test_who_ends_it_while_it_waits_gets_everything_back(tpu_cloud: Cloud, tmp_path: Path) -> None:
    """By any of three signals; the three wait at the same time."""
    tpu_cloud.set(hold=["CREATING"])
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    logs = {number: tmp_path / number.name for number in numbers}
    processes: dict[signal.Signals, subprocess.Popen[bytes]] = {}
    for number, log in logs.items():
        words = [f"mine-{number}" if word == "mine" else word for word in CREATE]
        with log.open("wb") as stream:
            processes[number] = subprocess.Popen(
                [sys.executable, "-m", "flows.cli.main", *words], cwd=ROOT, stdout=stream, stderr=stream
            )
    try:
        for number, process in processes.items():
            until(lambda n=number, p=process: "coming up" in logs[n].read_text() or p.poll() is not None)  # type: ignore[misc]
            process.send_signal(number)
        for number, process in processes.items():
            assert process.wait(PATIENCE_S) == ExitCode.INTERRUPTED, logs[number].read_text()
    finally:
        for process in processes.values():
            process.kill()
    assert tpu_cloud.inventory() == []
    for number in numbers:
        lease = latest(a_ledger(), f"tpu-mine-{number}")
        assert lease is not None
        assert lease.state is State.GONE
