"""The directory ledger: compare-and-swap between processes, and files that are not what they should be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.leases import lease as leases
from tasks.leases.ledger import VERSION, Conflict, DirectoryLedger, Unreadable, Unwritable, decode, encode
from tasks.leases.owner import this_process
from tasks.leases.resource import ResourceRef

ROOT = Path(__file__).parents[3]


def new(name: str = "run") -> leases.Lease:
    return leases.plan(name, name, 1, this_process(), 100.0, 160.0)


def test_what_was_written_is_read(ledger: DirectoryLedger) -> None:
    written = ledger.write(leases.join(leases.intend(new(), ResourceRef("node", "z", "n", "u")), "b-e1"))
    assert written.generation == 1
    assert ledger.read("run-e1") == written
    assert ledger.listing().leases == (written,)
    assert ledger.read("other-e1") is None
    assert decode(encode(written), "here") == written


def test_the_second_of_two_writers_loses(ledger: DirectoryLedger) -> None:
    first = ledger.write(new())
    second = ledger.write(leases.renew(first, 110.0, 170.0))
    with pytest.raises(Conflict, match="at generation 2, not 1"):
        ledger.write(leases.renew(first, 120.0, 180.0))
    with pytest.raises(Conflict):
        ledger.write(new())
    assert ledger.read("run-e1") == second


def test_many_processes_at_once_never_both_win(ledger: DirectoryLedger) -> None:
    ledger.write(new())
    code = """if True:
        import sys
        from pathlib import Path
        from tasks.leases import lease as leases
        from tasks.leases.ledger import Conflict, DirectoryLedger
        ledger, won = DirectoryLedger(Path(sys.argv[1])), 0
        while won < 20:
            lease = ledger.read("run-e1")
            try:
                ledger.write(leases.renew(lease, lease.renewed_at + 1, None))
                won += 1
            except Conflict:
                pass
    """
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, ledger.uri], env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        for _ in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    lease = ledger.read("run-e1")
    assert lease is not None
    assert (lease.generation, lease.renewed_at) == (61, 160.0), "every write that won counted exactly once"


def test_the_id_is_made_once_and_stays(ledger: DirectoryLedger, tmp_path: Path) -> None:
    assert ledger.id == DirectoryLedger(tmp_path / "ledger").id
    assert ledger.id != DirectoryLedger(tmp_path / "other").id


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a whole lease"),
        (b'{"version": 1, "lease_id": "run-e1"', "is not a whole lease"),
        (b"[]", "is no JSON object"),
        (b'{"version": 1}', "is not a whole lease"),
        (b"\xff\xfe", "is not a whole lease"),
        (b'{"version": 99, "future": true}', "newer slicebench"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_and_kept(
    ledger: DirectoryLedger, content: bytes, said: str
) -> None:
    good = ledger.write(new("good"))
    file = Path(ledger.uri) / "run-e1.json"
    file.write_bytes(content)
    with pytest.raises(Unreadable, match=said):
        ledger.read("run-e1")
    with pytest.raises(Unreadable, match=said):
        ledger.write(new())
    listing = ledger.listing()
    assert listing.leases == (good,)
    assert [said in str(error) and str(file) in str(error) for error in listing.unreadable] == [True]
    assert file.read_bytes() == content


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
