"""The reaper as a flow under Prefect: it fails for as long as something leaked, so that somebody is told each time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flows.reap import reap
from tasks.config.home import ledger_folder, scratch_folder
from tasks.leases import reaper, steps
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.inventory import open_inventories
from tasks.leases.lease import State
from tasks.leases.patience import Patience
from tests.tasks.leases.rooms import Rooms
from tests.waiting import PATIENCE_S

QUICK = Patience(grace_s=0.1, deadline_s=0.5, look_every_s=0.02)


def test_it_keeps_failing_while_something_leaked_and_no_longer(
    prefect: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = DirectoryLedger(ledger_folder())
    rooms = Rooms(tmp_path_factory.mktemp("building"), ledger.id)
    rooms.refuses["blue"] = 10_000
    everything = {**open_inventories(ledger, scratch_folder()), "room": rooms}
    monkeypatch.setattr("flows.reap.the_inventories", lambda *given: everything)
    monkeypatch.setitem(reaper.reap.__kwdefaults__, "patience", QUICK)
    holding = claim(ledger, everything, "run", "run")
    rooms.rent(holding, "blue")
    assert holding.lease.owner is not None
    held = ledger.write(steps.releasing(holding.lease, holding.lease.owner, 0.0, "the run is over"))
    ledger.write(steps.leaked(held, "room blue is still there"))
    for _ in range(2):
        state = reap(return_state=True)
        assert state.is_failed()
        assert state.message is not None
        assert state.message.startswith("LEAKED: run-e1: room blue is still there")
    rooms.refuses.clear()
    monkeypatch.setitem(reaper.reap.__kwdefaults__, "patience", replace(QUICK, deadline_s=PATIENCE_S))
    state = reap(return_state=True)
    assert (state.is_completed(), state.message) == (True, "1 of 1 lease released")
    lease = ledger.read("run-e1")
    assert lease is not None and lease.state is State.GONE
