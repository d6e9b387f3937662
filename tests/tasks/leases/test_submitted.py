"""What becomes of the lease of a workload that goes on by itself, by what its cluster says of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.finding import Act, Judgement
from tasks.leases.inventory import Found, PartlyListed
from tasks.leases.jobsets import JOBSET, JobSetInventory
from tasks.leases.lease import Lease, State
from tasks.leases.owner import this_process
from tasks.leases.queues import QueueInventory
from tasks.leases.resource import ResourceRef
from tasks.leases.submitted import heard_of_its_cluster

REF = ResourceRef(JOBSET, "context c/default", "w", "uid")
LEASE = Lease("workload-w-1-e1", "workload-w-1", None, 1, None, State.LIVE, 0.0, 100.0, resources=(REF,))
GOES_ON, HAS_ENDED = Found(LEASE.lease_id, REF), Found(LEASE.lease_id, REF, stays_until=500.0)
FOR_EVER = replace(HAS_ENDED, stays_until=math.inf)
OTHERS = Found("workload-w-1-e2", REF)


class Cluster:
    """Stands for an inventory: `there` None does not answer."""

    def __init__(self, there: bool | None) -> None:
        self.there = there
        self.asked = 0

    def sees(self, scope: str) -> bool:
        return True

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        self.asked += 1
        if self.there is None:
            raise InfrastructureError("no answer")
        return ref if self.there else None


@pytest.mark.parametrize(
    ("changes", "said", "labelled", "there", "becomes"),
    [
        ({}, "keep", [GOES_ON], True, "keep"),
        ({}, "keep", [HAS_ENDED], True, "keep"),
        ({}, "keep", [OTHERS], False, "release"),
        ({}, "keep", [], False, "release"),
        ({}, "keep", [], True, "keep"),  # made after the listing
        ({}, "keep", [], None, "keep"),
        ({}, "release", [GOES_ON], True, "release"),
        ({}, "release", [HAS_ENDED], True, "keep"),
        ({}, "release", [FOR_EVER], True, "keep"),
        ({}, "release", [HAS_ENDED, GOES_ON], True, "release"),
        ({}, "release", [replace(HAS_ENDED, stays_until=100.0)], True, "release"),
        ({}, "release", [], False, "release"),
        ({"run_id": "run-1"}, "keep", [], False, "keep"),
        ({"name": "cluster-c"}, "keep", [], False, "keep"),
        ({"owner": this_process()}, "keep", [], False, "keep"),
        ({"state": State.RELEASING}, "release", [HAS_ENDED], True, "release"),
    ],
)
def test_it_is_closed_once_it_is_gone_and_stays_to_be_read_once_it_has_ended(
    changes: dict[str, Any], said: Act, labelled: Sequence[Found], there: bool | None, becomes: Act
) -> None:
    lease, inventories = replace(LEASE, **changes), {JOBSET: Cluster(there)}
    found = heard_of_its_cluster(lease, Judgement(said, "so it is"), inventories, labelled, (), 200.0)  # type: ignore[arg-type]
    assert found.act == becomes


def test_a_cluster_that_did_not_answer_is_not_asked_once_more_for_each_lease() -> None:
    cluster: Any = Cluster(None)
    keep = Judgement("keep", "so it is")
    assert heard_of_its_cluster(LEASE, keep, {JOBSET: cluster}, [], {"context c"}, 200.0) == keep
    assert cluster.asked == 0


@pytest.mark.parametrize("kind", [JobSetInventory, QueueInventory])
@pytest.mark.parametrize(
    ("state", "days", "looks"), [(State.LIVE, 9, True), (State.GONE, 0.5, True), (State.GONE, 2, False)]
)
def test_a_cluster_is_forgotten_a_day_after_the_last_of_it_is_gone(
    tmp_path: Path,
    state: State,
    days: float,
    looks: bool,
    kind: type[JobSetInventory] | type[QueueInventory],
) -> None:
    ledger = DirectoryLedger(tmp_path)
    scope = f"context nosuch of {tmp_path}/none/default"
    lease = replace(
        LEASE,
        state=state,
        renewed_at=time.time() - days * 86400,
        resources=(replace(REF, kind=kind.kind, scope=scope),),
    )
    ledger.write(lease)
    inventory = kind(ledger)
    if looks:
        with pytest.raises(PartlyListed, match="does not know the way to context nosuch"):
            inventory.list(None)
    else:
        assert inventory.list(None) == []
