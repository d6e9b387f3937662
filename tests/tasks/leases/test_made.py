"""What was made and what went is told as it is: each thing once, with what is inside of it, and no holds."""

from __future__ import annotations

from tasks.leases.lease import Lease, State
from tasks.leases.made import gone_with, made_under, things, told
from tasks.leases.resource import ResourceRef

CLUSTER = ResourceRef("gke_cluster", "p/z", "mine", "1")
POOLS = [ResourceRef("gke_node_pool", "p/z/mine", f"np-{n}", "1", inside=CLUSTER.key) for n in range(2)]
THEIRS = ResourceRef("gke_cluster", "p/z", "theirs", "2", ours=False)
HOLDS = [ResourceRef("lock", "gke", "x", "3"), ResourceRef("share", "ledger", "y", "4")]
LEASE = Lease("l-e1", "l", None, 1, None, State.LIVE, 0.0, None, resources=(CLUSTER, *POOLS, THEIRS, *HOLDS))


def test_all_that_was_made_counts_and_no_hold_does() -> None:
    assert made_under(LEASE) == [CLUSTER, *POOLS]
    assert gone_with(LEASE, [CLUSTER]) == [CLUSTER, *POOLS]
    assert gone_with(LEASE, [CLUSTER, *POOLS]) == [CLUSTER, *POOLS]
    assert gone_with(LEASE, POOLS) == POOLS
    assert things((*made_under(LEASE), *gone_with(LEASE, [CLUSTER]), *HOLDS)) == [CLUSTER, *POOLS]


def test_few_are_named_and_many_counted_by_kind() -> None:
    assert told([]) == "no resources"
    assert told([CLUSTER]) == "1 resource (gke_cluster mine)"
    more = [ResourceRef("jobset", "c/d", "w", "5")]
    assert told([CLUSTER, *POOLS, *more]) == "4 resources (1 gke_cluster, 2 gke_node_pools, 1 jobset)"
