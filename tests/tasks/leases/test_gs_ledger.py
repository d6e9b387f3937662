"""The ledger in Cloud Storage when the network is bad: lost replies, errors, silence, and no way in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.leases import directories, steps
from tasks.leases.claim import claim
from tasks.leases.gs_ledger import GsLedger
from tasks.leases.holding import Fenced
from tasks.leases.inventory import open_inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Conflict, Unwritable
from tasks.leases.opening import open_ledger
from tasks.leases.owner import this_process
from tasks.leases.patience import Patience
from tests.cloud.fake_gcs import make_bucket
from tests.cloud.faulty_proxy import Proxy, serve_proxy

UPLOAD = {"method": "POST", "path": "/upload/"}


@pytest.fixture
def proxy(gcs_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with serve_proxy(gcs_url) as running:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", running.url)
        yield running


@pytest.fixture
def ledger(proxy: Proxy, gcs_url: str) -> GsLedger:
    return GsLedger(make_bucket(gcs_url), "ledger", patience_s=3.0)


def new(name: str = "run") -> Lease:
    return steps.plan(name, name, 1, this_process(), 100.0, 160.0)


def uploads(proxy: Proxy) -> int:
    return sum("/upload/" in call for call in proxy.calls())


def test_a_write_whose_reply_was_lost_won(ledger: GsLedger, proxy: Proxy) -> None:
    proxy.spoil({**UPLOAD, "do": "lose_reply"})
    first = ledger.write(new())
    assert uploads(proxy) == 2, "it was tried again, and refused by what it had written itself"
    assert ledger.read("run-e1") == first
    proxy.spoil({**UPLOAD, "do": "lose_reply"})
    second = ledger.write(steps.renew(first, 110.0, 170.0))
    assert ledger.read("run-e1") == second


def test_a_lost_reply_does_not_make_a_loser_the_winner(ledger: GsLedger, proxy: Proxy) -> None:
    first = ledger.write(new())
    second = ledger.write(steps.renew(first, 110.0, 170.0))
    proxy.spoil({**UPLOAD, "do": "lose_reply"})
    with pytest.raises(Conflict):
        ledger.write(steps.renew(first, 120.0, 180.0))
    assert ledger.read("run-e1") == second


@pytest.mark.parametrize("do", ["error", "drop"])
def test_a_service_that_stumbles_is_asked_again(ledger: GsLedger, proxy: Proxy, do: str) -> None:
    proxy.spoil({**UPLOAD, "do": do, "times": 2}, {"method": "GET", "do": do, "times": 2})
    assert ledger.read("run-e1") is None
    assert ledger.write(new()).generation > 0


@pytest.mark.parametrize(("do", "said"), [("error", "503"), ("refuse", "roles/storage.objectAdmin")])
def test_nothing_is_made_when_the_ledger_cannot_be_written(
    ledger: GsLedger, proxy: Proxy, tmp_path: Path, do: str, said: str
) -> None:
    holding = claim(ledger, open_inventories(ledger, tmp_path), "run", "run")
    proxy.spoil({**UPLOAD, "do": do, "times": 10_000})
    made = []
    with pytest.raises(Unwritable, match=said):
        holding.create("node", "zone", "n", lambda: made.append("n") or "uid")
    assert made == []
    with pytest.raises(Unwritable, match="nothing is made that is not written down first"):
        claim(ledger, open_inventories(ledger, tmp_path), "other", "other")


def test_nobody_answers(gcs_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    ledger = GsLedger("bucket", "ledger", patience_s=0.5)
    with pytest.raises(Unwritable, match="gs://bucket/ledger/run-e1.json"):
        ledger.write(new())
    for ask in (ledger.exists, ledger.listing, lambda: ledger.read("run-e1")):
        with pytest.raises(InfrastructureError):
            ask()


def test_a_bucket_that_is_not_there_is_told_with_the_fix(proxy: Proxy) -> None:
    with pytest.raises(Unwritable, match="gcloud storage buckets create gs://no-such-bucket"):
        GsLedger("no-such-bucket", "ledger", patience_s=1.0).write(new())


def test_a_run_gives_back_what_it_made_while_the_ledger_is_out_of_reach(
    ledger: GsLedger, proxy: Proxy, tmp_path: Path
) -> None:
    holding = claim(ledger, open_inventories(ledger, tmp_path), "run", "run")
    folder = tmp_path / "run"
    ref = directories.reference(folder)
    holding.create(ref.kind, ref.scope, ref.name, lambda: directories.make(folder, holding.labels))
    proxy.spoil({"do": "error", "times": 10_000})
    done = holding.release("over", Patience(grace_s=0.2, deadline_s=2.0, look_every_s=0.02))
    assert not folder.exists()
    assert any("cannot write the lease ledger" in problem for problem in done.problems)
    proxy.spoil()
    assert holding.release("again").lease.state is State.GONE


def test_a_run_out_of_reach_for_longer_than_its_lease_leaves_it_to_the_reaper(
    ledger: GsLedger, proxy: Proxy, tmp_path: Path
) -> None:
    clock = [1_000.0]
    holding = claim(ledger, open_inventories(ledger, tmp_path), "run", "run", now=lambda: clock[0])
    stored = ledger.read("run-e1")
    assert stored is not None
    ledger.write(steps.releasing(stored, this_process(), clock[0], "reaped"))
    proxy.spoil({"do": "error", "times": 10_000})
    clock[0] += 1_000.0
    with pytest.raises(InfrastructureError, match="503"):
        holding.release("over")
    proxy.spoil()
    with pytest.raises(Fenced, match="reaped"):
        holding.release("over")


@pytest.mark.parametrize(
    ("uri", "said"), [("s3://bucket/ledger", "not a storage"), ("gs://bucket", "a folder of its own")]
)
def test_an_address_that_is_no_ledger(uri: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        open_ledger(uri)
