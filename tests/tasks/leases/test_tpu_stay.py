"""Two ledgers on one TPU: who writes at the same time, who takes the place of another, and who hears of it."""

from __future__ import annotations

import concurrent.futures
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import Node, NodeRequest
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Holding
from tasks.leases.lease import State
from tasks.leases.locks import Locked
from tasks.leases.tpu_entries import enter, read
from tasks.leases.tpu_stay import Ousted, Stay
from tests.cloud.tpu.leasing import QUICK, ZONE, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud
from tests.waiting import PATIENCE_S, until

KEYS = {name: f"ssh-ed25519 {name} {name}" for name in ("AAAA", "BBBB")}


@pytest.fixture
def mine(tpu_cloud: Cloud) -> Node:
    """A TPU that somebody made without slicebench."""
    tpu = CloudTpu("proj", timing=QUICK)
    tpu.create_node(ZONE, "mine", NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}))
    until(lambda: tpu.node(ZONE, "mine").state == "READY")
    return tpu.node(ZONE, "mine")


def hold(name: str, ledger: DirectoryLedger) -> Holding:
    return claim(ledger, quick_inventories(ledger), name, name)


def metadata() -> Mapping[str, str]:
    return CloudTpu("proj", timing=QUICK).node(ZONE, "mine").metadata


def entered(holding: Holding, node: Node, key: str) -> None:
    enter(CloudTpu("proj", timing=QUICK), holding, node, "me", KEYS[key], settle_s=0.05, poll_s=0.05)


def expire() -> None:
    """Makes the entry that stands one that nobody wrote again in time."""
    stale = json.dumps({**json.loads(metadata()["slicebench-lock"]), "until": 1.0})
    CloudTpu("proj", timing=QUICK).set_metadata(
        ZONE, "mine", lambda there: {**there, "slicebench-lock": stale}
    )


def staying(holding: Holding, key: str = "AAAA", refresh_s: float = 1200.0) -> Stay:
    return Stay("proj", holding, "me", KEYS[key], look_s=0.05, refresh_s=refresh_s)


class AtOnce(CloudTpu):
    """Writes after all others have read, and goes on once all have written."""

    def __init__(self, everyone: threading.Barrier) -> None:
        super().__init__("proj", timing=QUICK)
        self._everyone = everyone

    def set_metadata(
        self, zone: str, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        def late(there: Mapping[str, str]) -> Mapping[str, str]:
            wanted = change(there)
            self._everyone.wait(PATIENCE_S)
            return wanted

        super().set_metadata(zone, name, late)
        self._everyone.wait(PATIENCE_S)


def test_of_two_ledgers_that_write_at_the_same_time_one_gets_it(
    mine: Node, tpu_cloud: Cloud, tmp_path: Path
) -> None:
    tpu_cloud.set(update_s=0.0)
    everyone = threading.Barrier(2)
    holdings = {"AAAA": hold("run-1", a_ledger()), "BBBB": hold("run-2", DirectoryLedger(tmp_path / "other"))}

    def go(key: str) -> str:
        try:
            enter(AtOnce(everyone), holdings[key], mine, "me", KEYS[key], settle_s=0.05, poll_s=0.05)
        except Locked as error:
            return str(error)
        return "entered"

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        told = dict(zip(KEYS, pool.map(go, KEYS), strict=True))
    [winner] = [key for key, answer in told.items() if answer == "entered"]
    [loser] = [key for key in KEYS if key != winner]
    assert f"is used by lease {holdings[winner].lease.lease_id} of" in told[loser]
    entry = read(metadata())
    assert entry is not None
    assert (entry.lease, entry.key) == (holdings[winner].lease.lease_id, winner)
    for key in (loser, winner):
        assert holdings[key].release("over").lease.state is State.GONE
    assert dict(metadata()) == {}


def test_an_entry_is_kept_up_while_a_step_takes_its_time(mine: Node) -> None:
    holding = hold("run-1", a_ledger())
    entered(holding, mine, "AAAA")
    expire()
    with staying(holding, refresh_s=60.0) as stay:
        until(lambda: (entry := read(metadata())) is not None and entry.until > 1.0)
        stay.check()
    assert holding.release("over").lease.state is State.GONE
    assert dict(metadata()) == {}


def test_an_entry_that_somebody_took_out_is_put_back(mine: Node) -> None:
    holding = hold("run-1", a_ledger())
    entered(holding, mine, "AAAA")
    with staying(holding) as stay:
        CloudTpu("proj", timing=QUICK).set_metadata(ZONE, "mine", lambda there: {})
        until(lambda: read(metadata()) is not None)
        assert stay.reason() == ""
    assert holding.release("over").lease.state is State.GONE
    assert dict(metadata()) == {}


def test_who_was_ousted_hears_by_whom_and_leaves_that_one_alone(mine: Node) -> None:
    holding = hold("run-1", a_ledger())
    entered(holding, mine, "AAAA")
    other = {
        "lease": "run-2-e1",
        "ledger": "elsewhere",
        "owner": "jan",
        "key": "k",
        "since": 1.0,
        "until": 9e9,
    }
    there = {"slicebench-lock": json.dumps(other)}
    with staying(holding) as stay:
        CloudTpu("proj", timing=QUICK).set_metadata(ZONE, "mine", lambda before: there)
        until(stay.reason)
        with pytest.raises(
            Ousted, match="mine in us-east5-b was taken from this run: .*lease run-2-e1 of jan"
        ):
            stay.check()
    assert holding.release("over").lease.state is State.GONE
    assert dict(metadata()) == there
