"""What leaves the ledger, and when; and how often the ledger is read."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode
from tasks.leases import steps
from tasks.leases.claim import latest
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.inventory import Inventories, open_inventories
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Listing, Unwritable
from tasks.leases.pruning import KEPT_S
from tasks.leases.reaper import exit_code, reap

NOW = 2_000_000_000.0


def put(
    ledger: DirectoryLedger, name: str, epoch: int = 1, days: float = 40.0, state: State = State.GONE
) -> Lease:
    lease = steps.plan(name, name, epoch, None, NOW - days * 86400.0, None)
    return ledger.write(replace(lease, state=state))


def left(ledger: DirectoryLedger) -> list[str]:
    return [lease.lease_id for lease in ledger.listing().leases]


def test_a_name_goes_when_all_of_it_has_been_over_for_long(
    ledger: DirectoryLedger, inventories: Inventories
) -> None:
    assert KEPT_S == 28 * 86400.0
    put(ledger, "old"), put(ledger, "old", 2)
    put(ledger, "late", days=27.0)
    put(ledger, "again"), put(ledger, "again", 2, days=1.0)
    put(ledger, "kept", state=State.LIVE)
    put(ledger, "lock.tpu", state=State.PLANNED)
    before = left(ledger)
    reap(ledger, inventories, now=lambda: NOW, dry_run=True)
    assert left(ledger) == before
    reap(ledger, inventories, now=lambda: NOW)
    assert left(ledger) == [one for one in before if not one.startswith("old")]


def test_nothing_goes_while_something_cannot_be_read(
    ledger: DirectoryLedger, inventories: Inventories
) -> None:
    put(ledger, "old")
    (Path(ledger.uri) / "old-e2.json").write_text("{")
    reap(ledger, inventories, now=lambda: NOW)
    assert left(ledger) == ["old-e1"]


def test_a_run_that_begins_anew_at_this_very_moment_loses_no_epoch(
    ledger: DirectoryLedger, inventories: Inventories, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(ledger, "old"), put(ledger, "old", 2)
    remove = ledger.remove

    def begin_first(lease: Lease) -> None:
        if lease.epoch == 2:
            put(ledger, "old", 3, days=0.0, state=State.LIVE)
        remove(lease)

    monkeypatch.setattr(ledger, "remove", begin_first)
    reap(ledger, inventories, now=lambda: NOW)
    assert left(ledger) == ["old-e1", "old-e2", "old-e3"]
    last = latest(ledger, "old")
    assert last is not None and last.epoch == 3


def test_one_that_changes_meanwhile_stays(
    ledger: DirectoryLedger, inventories: Inventories, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = put(ledger, "old")
    put(ledger, "other")
    remove = ledger.remove

    def write_first(one: Lease) -> None:
        if one == lease:
            ledger.write(replace(lease, note="told"))
        remove(one)

    monkeypatch.setattr(ledger, "remove", write_first)
    reap(ledger, inventories, now=lambda: NOW)
    assert left(ledger) == ["old-e1"]


def test_what_was_done_is_told_though_an_old_lease_cannot_be_taken_out(
    ledger: DirectoryLedger, inventories: Inventories, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(ledger, "old")

    def refuse(lease: Lease) -> None:
        raise Unwritable("the disk is read-only")

    monkeypatch.setattr(ledger, "remove", refuse)
    [found] = reap(ledger, inventories, now=lambda: NOW)
    assert (found.did, found.why) == ("failed", "the disk is read-only")
    assert exit_code([found]) is ExitCode.INFRASTRUCTURE


def test_a_reaper_reads_all_leases_twice(
    ledger: DirectoryLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to know where to look for labels, and once, after that, for the leases."""
    put(ledger, "run", days=0.0)
    listed: list[float] = []
    whole = ledger.listing

    def listing() -> Listing:
        listed.append(time.monotonic())
        return whole()

    monkeypatch.setattr(ledger, "listing", listing)
    reap(ledger, open_inventories(ledger, tmp_path / "scratch"), now=lambda: NOW)
    assert len(listed) == 2
