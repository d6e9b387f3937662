"""For how long a workload is left to itself: not longer for its turn than on machines where nobody is in front."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.cloud.labels import labels_for
from tasks.leases import steps
from tasks.leases.shares import share
from tasks.stages.attempts import Started
from tasks.stages.leaving import leave
from tasks.targets.types import Plan, WorkloadRef
from tests.tasks.targets.local_runs import hold, make_run, spec

SCOPE = "cluster mine of proj in us-east5/default"


class Landlord:
    """As much of a target as leaving sees."""

    def __init__(self, alone_s: float | None) -> None:
        self.alone_s = alone_s

    def plan(self, spec: object) -> Plan:
        return Plan("gke", (), 1, 1, 1, "cpu", left_s=90_000.0, left_alone_s=self.alone_s)


@pytest.mark.parametrize(
    ("alone_s", "made", "others", "lasts_s"),
    [
        (2_000.0, True, False, 2_000.0),
        (2_000.0, True, True, 90_000.0),
        (2_000.0, False, False, 90_000.0),
        (None, True, False, 90_000.0),
    ],
)
def test_who_is_alone_on_what_was_made_for_him_pays_for_no_day_of_waiting(
    tmp_path: Path, alone_s: float | None, made: bool, others: bool, lasts_s: float
) -> None:
    run = replace(make_run(spec(tmp_path)), target=Landlord(alone_s))  # type: ignore[arg-type]
    holding = hold(run)
    if made:
        ledger, at = holding.ledger, time.time()
        theirs = ledger.write(steps.plan("cluster-mine_proj", "run-1", 1, None, at, at))
        share(holding, labels_for(theirs.lease_id, ledger.id))
        if others:
            other = ledger.write(steps.plan("run-9", "run-9", 1, None, at, at + 60.0))
            joined = ledger.read(theirs.lease_id)
            assert joined is not None
            ledger.write(steps.join(joined, other.lease_id))
    holding.live()
    before = time.time()
    attempts = [Started(1, WorkloadRef("gke", SCOPE, "run-1-e1", "u", 1))]
    until = leave(run, holding, attempts).left_until
    assert until is not None and before + lasts_s <= until <= time.time() + lasts_s
