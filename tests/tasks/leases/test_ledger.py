"""The directory ledger: compare-and-swap between processes, and files that are not what they should be."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.leases import steps
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.lease import Lease
from tasks.leases.ledger import VERSION, Unreadable, Unwritable, decode, encode
from tasks.leases.owner import this_process
from tasks.leases.resource import ResourceRef

ROOT = Path(__file__).parents[3]


def new(name: str = "run") -> Lease:
    return steps.plan(name, name, 1, this_process(), 100.0, 160.0)


def test_text_and_lease_are_the_same(ledger: DirectoryLedger) -> None:
    lease = steps.join(steps.intend(new(), ResourceRef("node", "z", "n", "u")), "b-e1")
    assert decode(encode(lease), "here") == lease


def test_a_lease_of_a_slicebench_that_knew_no_folders_is_read() -> None:
    lease = new()
    fields = json.loads(encode(lease))
    del fields["folder"], fields["held_by"]
    assert decode(json.dumps(fields), "here") == replace(lease, held_by=None)


def test_an_unknown_state_is_not_guessed_at(ledger: DirectoryLedger) -> None:
    fields = json.loads(encode(new())) | {"state": "resting"}
    with pytest.raises(Unreadable, match="resting"):
        decode(json.dumps(fields), "here")
    assert fields["version"] == VERSION


def test_a_ledger_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ledger = DirectoryLedger(tmp_path / "file" / "ledger")
    with pytest.raises(Unwritable, match="nothing is made that is not written down first"):
        ledger.write(new())
    assert ledger.listing().leases == ()


def test_a_lease_id_cannot_leave_the_folder(ledger: DirectoryLedger) -> None:
    with pytest.raises(Unwritable, match="cannot name a lease"):
        ledger.write(replace(new(), lease_id="../../etc/passwd"))


def test_a_killed_writer_leaves_nothing_that_counts(ledger: DirectoryLedger) -> None:
    lease = ledger.write(new())
    left = Path(ledger.uri) / ".run-e1.json.1234.abcd"
    left.write_text("half")
    assert ledger.listing().leases == (lease,)
    os.utime(left, (0, 0))
    ledger.write(lease)
    assert not left.exists()
    assert sorted(path.name for path in Path(ledger.uri).iterdir()) == [".lock", "run-e1.json"]
