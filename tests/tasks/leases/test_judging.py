"""What is to become of a lease, by its renewals, its owner and what else is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.leases import owner as owners
from tasks.leases.judging import judge
from tasks.leases.lease import Lease, State

HERE = owners.this_process()


def lease(**changes: object) -> Lease:
    base = Lease("run-e1", "run", "run", 1, HERE, State.LIVE, 1000.0, 1180.0)
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("it", "now", "alive", "ended", "act", "why"),
    [
        (lease(), 1010, True, False, "keep", "lives"),
        (lease(), 1010, None, True, "keep", "is elsewhere"),
        (lease(), 1010, False, False, "release", "is gone"),
        (lease(), 1100, True, False, "keep", "100 s ago"),
        (lease(), 1100, True, True, "watch", "its run has ended"),
        (lease(), 1181, None, False, "watch", "expired"),
        (lease(), 1181, True, False, "watch", "expired"),
        (lease(renewed_at=1170.0), 1181, True, False, "keep", "11 s ago"),
        (lease(expires_at=None), 9999, True, False, "keep", "lives"),
        (lease(owner=None), 1010, None, False, "keep", "kept on purpose"),
        (lease(owner=None), 1181, None, False, "release", "kept for is over"),
        (lease(owner=None, expires_at=None), 9999, None, False, "keep", "kept on purpose"),
        (lease(holders=("b-e1",), owner=None), 1181, None, False, "keep", "shared by b-e1"),
        (lease(state=State.RELEASING), 1010, True, False, "keep", "lives"),
        (lease(state=State.RELEASING), 1010, False, False, "release", "is gone"),
        (lease(state=State.RELEASING, expires_at=None), 1100, True, False, "watch", "stands still"),
        (
            lease(state=State.LEAKED, owner=None, note="n0 is there"),
            1010,
            None,
            False,
            "release",
            "n0 is there",
        ),
        (lease(state=State.GONE, owner=None), 9999, None, True, "keep", "gone"),
    ],
)
def test_judgements(it: Lease, now: float, alive: bool | None, ended: bool, act: str, why: str) -> None:
    verdict = judge(it, now, alive, ended)
    assert verdict.act == act
    assert why in verdict.why
