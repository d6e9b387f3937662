"""What every ledger promises, whatever it is written on: two writers never both win, and nothing is guessed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.cloud.storage import open_folder
from tasks.leases import steps
from tasks.leases.lease import Lease
from tasks.leases.ledger import Conflict, Ledger, Unreadable, Unwritable
from tasks.leases.opening import open_ledger
from tasks.leases.owner import this_process
from tasks.leases.resource import ResourceRef
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]


def new(name: str = "run") -> Lease:
    return steps.plan(name, name, 1, this_process(), 100.0, 160.0)


@pytest.fixture(params=["directory", "gs"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger may be made."""
    if request.param == "directory":
        return str(tmp_path / "ledger")
    return f"{request.getfixturevalue('gcs_bucket')}/some/ledger"


@pytest.fixture
def ledger(uri: str) -> Ledger:
    return open_ledger(uri)


@pytest.fixture
def put(uri: str) -> Callable[[str, bytes], str]:
    """Puts bytes in the place of a lease, behind the ledger's back; returns where."""

    def write(name: str, content: bytes) -> str:
        open_folder(uri).write(name, content)
        return f"{uri}/{name}"

    return write


def test_what_is_taken_out_is_gone_unless_somebody_wrote_it_since(ledger: Ledger) -> None:
    first = ledger.write(new())
    second = ledger.write(first)
    with pytest.raises(Conflict, match="run-e1 changed meanwhile"):
        ledger.remove(first)
    assert ledger.read("run-e1") == second
    ledger.remove(second)
    ledger.remove(second)
    assert (ledger.read("run-e1"), ledger.listing().leases) == (None, ())
    assert ledger.write(new()).generation > 0


def test_what_was_written_is_read(ledger: Ledger) -> None:
    written = ledger.write(steps.join(steps.intend(new(), ResourceRef("node", "z", "n", "u")), "b-e1"))
    assert written.generation > 0
    assert ledger.read("run-e1") == written
    assert ledger.read("other-e1") is None
    other = ledger.write(new("other"))
    assert ledger.listing().leases == (other, written)
    assert ledger.listing().unreadable == ()


def test_it_says_whether_it_is_there_and_looking_makes_nothing(ledger: Ledger, uri: str) -> None:
    assert (ledger.exists(), ledger.listing().leases, ledger.read("run-e1")) == (False, (), None)
    assert not open_ledger(uri).exists()
    assert ledger.id
    assert open_ledger(uri).exists()


def test_the_id_is_made_once_and_stays(ledger: Ledger, uri: str) -> None:
    assert ledger.id == open_ledger(uri).id == ledger.id
    assert ledger.id != open_ledger(f"{uri}-2").id
    assert ledger.listing().leases == ()


def test_the_second_of_two_writers_loses(ledger: Ledger) -> None:
    first = ledger.write(new())
    second = ledger.write(steps.renew(first, 110.0, 170.0))
    assert second.generation > first.generation
    with pytest.raises(Conflict, match=f"at generation {second.generation}, not {first.generation}"):
        ledger.write(steps.renew(first, 120.0, 180.0))
    with pytest.raises(Conflict):
        ledger.write(new())
    assert ledger.read("run-e1") == second


def test_a_lease_that_is_not_there_cannot_be_changed(ledger: Ledger) -> None:
    written = ledger.write(new())
    with pytest.raises(Conflict, match="at generation 0"):
        ledger.write(replace(new("other"), generation=written.generation))
    assert ledger.read("other-e1") is None


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["read", "write"])), max_size=14))
def test_two_writers_interleaved_agree_with_one_register(uri: str, moves: list[tuple[str, str]]) -> None:
    """Each writer writes what it read last. The model is a register with a version: who is stale loses."""
    writers = {name: open_ledger(uri) for name in "ab"}
    name = f"run-{uuid4().hex[:12]}"
    stored = writers["a"].write(new(name))
    version, at = 1, stored.renewed_at
    seen = dict.fromkeys("ab", (1, stored))
    for who, move in moves:
        if move == "read":
            found = writers[who].read(f"{name}-e1")
            assert found is not None
            assert found.renewed_at == at
            seen[who] = (version, found)
            continue
        known, lease = seen[who]
        following = steps.renew(lease, at + 1.0, None)
        if known == version:
            written = writers[who].write(following)
            version, at = version + 1, written.renewed_at
            seen[who] = (version, written)
        else:
            with pytest.raises(Conflict):
                writers[who].write(following)


def test_many_processes_at_once_never_both_win(ledger: Ledger, uri: str) -> None:
    ledger.write(new())
    code = """if True:
        import sys
        from tasks.leases import steps
        from tasks.leases.ledger import Conflict
        from tasks.leases.opening import open_ledger
        ledger, won = open_ledger(sys.argv[1]), 0
        while won < 10:
            lease = ledger.read("run-e1")
            try:
                ledger.write(steps.renew(lease, lease.renewed_at + 1, None))
                won += 1
            except Conflict:
                pass
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    writers = [subprocess.Popen([sys.executable, "-c", code, uri], env=environment) for _ in range(2)]
    assert [writer.wait(PATIENCE_S) for writer in writers] == [0, 0]
    lease = ledger.read("run-e1")
    assert lease is not None
    assert lease.renewed_at == 120.0, "every write that won counted exactly once"


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
def test_what_cannot_be_read_is_told_and_kept(
    ledger: Ledger, put: Callable[[str, bytes], str], content: bytes, said: str
) -> None:
    good = ledger.write(new("good"))
    where = put("run-e1.json", content)
    with pytest.raises(Unreadable, match=said):
        ledger.read("run-e1")
    with pytest.raises(Unreadable, match=said):
        ledger.write(new())
    with pytest.raises(Unreadable, match=said):
        ledger.read("run-e1")
    listing = ledger.listing()
    assert listing.leases == (good,)
    assert [said in str(error) and where in str(error) for error in listing.unreadable] == [True]


def test_a_lease_id_cannot_leave_the_ledger(ledger: Ledger) -> None:
    for bad in ("../../etc/passwd", "a/b", ""):
        with pytest.raises(Unwritable, match="cannot name a lease"):
            ledger.read(bad)
