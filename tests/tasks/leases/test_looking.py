"""All kinds are listed at once: one that is away holds up no other, is told with its leases, and is not asked again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.leases import reaper, steps
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.inventory import HERE, Found, PartlyListed
from tasks.leases.looking import look, not_asked_again
from tasks.leases.resource import ResourceRef

AWAY, THERE = ResourceRef("away", "p/x", "w", "u"), ResourceRef("near", "q/x", "w", "u")


class Things:
    """Of one kind. `gate`: its listing waits for that; `silent`: places that do not answer."""

    pace, settle_s, after = HERE, 0.0, frozenset[str]()

    def __init__(self, kind: str, gate: threading.Event | None = None, silent: Sequence[str] = ()) -> None:
        self.kind, self.gate, self.silent = kind, gate, silent
        self.asked: list[str] = []

    def sees(self, scope: str) -> bool:
        return True

    def list(self, lease_id: str | None) -> Sequence[Found]:
        if self.gate is not None:
            self.gate.wait()
        if self.silent:
            raise PartlyListed(self.kind, [], {one: InfrastructureError("no answer") for one in self.silent})
        return [Found("n-e1", ResourceRef(self.kind, "q/x", "w", "u"))]

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        self.asked.append(ref.scope)
        return ref

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        raise AssertionError("nothing is to be deleted")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def ledger(tmp_path: Path) -> DirectoryLedger:
    made = DirectoryLedger(tmp_path)
    for number in range(5):
        lease = steps.plan(f"run{number}", f"run{number}", 1, None, time.time(), time.time() + 900.0)
        made.write(steps.confirm(steps.intend(lease, AWAY), AWAY))
    return made


def test_what_does_not_answer_in_time_is_told_with_its_leases(
    ledger: DirectoryLedger, gate: threading.Event
) -> None:
    away, near = Things("away", gate), Things("near")
    looked = look(ledger, {"away": away, "near": near}, 0.3)
    assert [one.ref.kind for one in looked.labelled] == ["near"]
    [told] = looked.findings
    assert (told.lease_id, told.did) == ("all away", "not listed")
    assert told.why.endswith("away of run0, run1, run2 and 2 more there are: no answer within 0.3 s")
    again = not_asked_again({"away": away, "near": near}, looked)
    with pytest.raises(InfrastructureError, match="did not answer just now"):
        again["away"].get(AWAY)
    assert again["near"].get(THERE) == THERE and not away.asked


def test_only_places_that_are_silent_are_not_asked_again(ledger: DirectoryLedger) -> None:
    things = Things("near", silent=["p"])
    looked = look(ledger, {"near": things})
    assert looked.silent == {"p"}
    again = not_asked_again({"near": things}, looked)["near"]
    with pytest.raises(InfrastructureError):
        again.get(AWAY)
    assert again.get(THERE) == THERE and things.asked == ["q/x"]


def test_a_dry_run_ends_while_a_cloud_is_away(
    ledger: DirectoryLedger, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "_DRY_WITHIN_S", 0.2)
    away = Things("away", gate)
    findings = reaper.reap(ledger, {"away": away}, dry_run=True)
    assert {one.did for one in findings} == {"not listed", "kept"} and len(findings) == 6 and not away.asked
