"""What hosts are asked, asked of this machine: labels, identities, folders, starts that happen once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.job import LEASE_VARIABLE, LEDGER_VARIABLE
from runtime.contract.process import started_at
from runtime.hosts import probe, steward, store
from tests.runtime.hosts.asking import COMMAND, asked
from tests.waiting import until

LABELS = {LEASE_VARIABLE: "run-1-e1", LEDGER_VARIABLE: "ledger-of-this-test"}


@pytest.fixture
def started() -> Iterator[list[str]]:
    """Uids to be killed at the end."""
    uids: list[str] = []
    yield uids
    steward.end(uids, True, 2.0)


def look(root: Path, lease: str | None = "run-1-e1", uids: list[str] | None = None) -> dict[str, object]:
    return steward.look(str(root), LABELS[LEDGER_VARIABLE], lease, uids or [])


def test_the_labels_are_those_of_the_contract() -> None:
    assert (steward.LEASE, steward.LEDGER) == (LEASE_VARIABLE, LEDGER_VARIABLE)


def test_a_start_happens_once_and_is_seen_by_its_label(tmp_path: Path, started: list[str]) -> None:
    job = str(tmp_path / "job-a1.json")
    command = [sys.executable, "-c", "import time; time.sleep(60)", job]
    first = steward.start(job, command, str(tmp_path / "scratch"), LABELS)
    started.append(first["uid"])
    pid = int(first["uid"].split("@")[0])
    until(lambda: job in Path(f"/proc/{pid}/cmdline").read_text())
    again = steward.start(job, command, str(tmp_path / "scratch"), LABELS)
    assert (again["uid"], first["was_there"], again["was_there"]) == (first["uid"], False, True)
    seen = look(tmp_path, uids=[first["uid"], "1@0.00@elsewhere"])
    assert [process["uid"] for process in seen["processes"]] == [first["uid"]]  # type: ignore[attr-defined]
    assert seen["alive"] == [first["uid"]]
    assert look(tmp_path, lease="another-e1")["processes"] == []
    assert os.getsid(pid) == pid


def test_a_uid_of_another_boot_or_start_is_nobody(started: list[str]) -> None:
    me = os.getpid()
    start = started_at(me)
    assert start is not None
    uid = steward.uid_of(me, start)
    pid, when, boot = uid.split("@")
    assert steward.lives(uid)
    assert not steward.lives(f"{pid}@{float(when) + 1:.2f}@{boot}")
    assert not steward.lives(f"{pid}@{when}@000000000000")


def test_all_of_a_lease_is_ended_children_that_emptied_their_environment_included(
    tmp_path: Path, started: list[str]
) -> None:
    child = "import subprocess; subprocess.Popen(['setsid', 'sleep', '60'], env={}).wait()"
    job = str(tmp_path / "job")
    started.append(steward.start(job, [sys.executable, "-c", child, job], str(tmp_path), LABELS)["uid"])
    until(lambda: len(look(tmp_path)["processes"]) >= 2)  # type: ignore[arg-type]
    assert steward.end_lease(LABELS[LEDGER_VARIABLE], "run-1-e1", 5.0) == {"alive": []}
    assert look(tmp_path)["processes"] == []


def test_a_folder_is_made_for_one_lease_and_deleted_by_its_label(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run-1-w0000"
    assert steward.make(str(folder), LABELS) == {"path": str(folder), "ours": True}
    assert steward.make(str(folder), LABELS)["ours"]
    assert not steward.make(str(folder), {**LABELS, LEASE_VARIABLE: "run-1-e2"})["ours"]
    (folder / "deep").mkdir()
    (folder / "deep" / "file").touch()
    (folder / "link").symlink_to(tmp_path)
    assert look(tmp_path / "runs")["folders"] == [{"lease": "run-1-e1", "name": "run-1-w0000"}]
    steward.remove(str(folder), "another ledger")
    assert folder.is_dir()
    steward.remove(str(folder), LABELS[LEDGER_VARIABLE])
    assert not folder.exists()
    steward.remove(str(folder), LABELS[LEDGER_VARIABLE])
    assert look(tmp_path / "runs")["folders"] == []


def test_a_mark_leaves_nothing(tmp_path: Path) -> None:
    there = tmp_path / "new" / "deep"
    made = probe.mark(str(there), "marker")
    assert probe.see(str(there), "marker", 0.0) == {"seen": True, "writable": True}
    probe.unmark(str(there), "marker", made["new"])
    assert list(tmp_path.iterdir()) == []
    assert not probe.see(str(there), "marker", 0.0)["seen"]


def test_errors_are_told_with_their_number(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    request = {"op": "mark", "folder": str(tmp_path / "file" / "x"), "name": "m"}
    told = subprocess.run(COMMAND, input=asked("probe", request), capture_output=True, text=True)
    assert json.loads(told.stdout)["errno"] == "ENOTDIR"


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up"])
def test_files_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="leads out of the folder"):
        store.lay(str(tmp_path / "store"), "", str(tmp_path / "into"), {name: "0" * 64})
