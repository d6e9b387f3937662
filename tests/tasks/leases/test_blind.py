"""A machine that is not logged in to Google says so once, tries nothing there, and gives back all else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode, InfrastructureError
from tasks.cloud.container_errors import error_for
from tasks.cloud.google_login import NoLogin
from tasks.cloud.tpu_errors import error_for as tpu_error_for
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.giving_up import give_up
from tasks.leases.inventory import Found, Inventories, Pace, PartlyListed
from tasks.leases.lease import Lease, State
from tasks.leases.patience import Patience
from tasks.leases.reaper import exit_code, reap
from tasks.leases.resource import ResourceRef

BLIND, SILENT, SEEN = "cluster a of p/default", "cluster b of p/default", "cluster c of p/default"


class Clusters:
    """Of the first nobody may know anything, the second does not answer, the third does as it is told."""

    kind = "jobset"
    pace = Pace(look_every_s=0.01, goes_within_s=0.05, remote=True, silent_s=0.05)
    settle_s = 0.0
    after: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.there = {"w-a", "w-b", "w-c"}
        self.asked: list[str] = []

    def sees(self, scope: str) -> bool:
        return True

    def list(self, lease_id: str | None) -> Sequence[Found]:
        if lease_id is not None:
            return []
        silent = {"cluster a of p": NoLogin("log in"), "cluster b of p": InfrastructureError("no answer")}
        raise PartlyListed(self.kind, [], silent)

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        if ref.scope == BLIND:
            raise NoLogin("log in")
        if ref.scope == SILENT:
            raise InfrastructureError("no answer")
        return ref if ref.name in self.there else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        self.asked.append(ref.name)
        self.there.discard(ref.name)


def put(ledger: DirectoryLedger, name: str, scope: str) -> None:
    ref = ResourceRef("jobset", scope, f"w-{name}", f"uid-{name}")
    ledger.write(Lease(f"{name}-e1", name, None, 1, None, State.LIVE, 1.0, 2.0, resources=(ref,)))


@pytest.fixture
def ledger(tmp_path: Path) -> DirectoryLedger:
    made = DirectoryLedger(tmp_path)
    for name, scope in (("a", BLIND), ("a2", BLIND), ("b", SILENT), ("c", SEEN)):
        put(made, name, scope)
    return made


def test_it_is_told_once_and_the_rest_goes_on(ledger: DirectoryLedger) -> None:
    clusters = Clusters()
    inventories: Inventories = {"jobset": clusters}
    findings = reap(ledger, inventories, patience=Patience(0.05, 3.0, 0.02), confirm_s=0.0)
    told = {one.lease_id: one for one in findings}
    assert {name: one.did for name, one in told.items()} == {
        "Google Cloud": "not listed", "all jobset": "not listed", "a-e1": "not reachable", "a2-e1": "not reachable",
        "b-e1": "leaked", "c-e1": "released",
    }  # fmt: skip
    assert told["Google Cloud"].why == "log in: nobody knows what jobset there are in cluster a of p"
    assert "cluster b of p: no answer" in told["all jobset"].why and "log in" not in told["all jobset"].why
    assert sum("log in" in one.why for one in findings) == 1
    assert clusters.asked == ["w-c"]
    assert {one.lease_id: one.state for one in ledger.listing().leases}["a-e1"] is State.LIVE
    assert exit_code([one for one in findings if one.lease_id != "b-e1"]) == ExitCode.INFRASTRUCTURE


def test_one_that_is_asked_for_by_name_is_left_as_it_was(ledger: DirectoryLedger) -> None:
    clusters = Clusters()
    with pytest.raises(NoLogin, match="log in"):
        give_up(ledger, {"jobset": clusters}, "a")
    assert clusters.asked == []
    left = ledger.read("a-e1")
    assert left is not None and left.state is State.LIVE


def test_places_of_one_error_are_told_together() -> None:
    error = PartlyListed("jobset", [], {name: InfrastructureError("no answer") for name in ("a", "b")})
    assert str(error) == "nobody knows what jobset there are in a, b: no answer"


@pytest.mark.parametrize("error_of", [error_for, tpu_error_for])
def test_who_is_nobody_is_told_from_who_may_not(error_of: object) -> None:
    assert isinstance(error_of(16, "UNAUTHENTICATED", "look"), NoLogin)  # type: ignore[operator]
    assert not isinstance(error_of(7, "PERMISSION_DENIED", "look"), NoLogin)  # type: ignore[operator]
