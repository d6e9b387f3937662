"""Workloads that somebody submitted and that go on by themselves: only its cluster says that one is over."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tasks.leases.beyond import is_there
from tasks.leases.finding import Judgement
from tasks.leases.inventory import Found, Inventories
from tasks.leases.lease import HELD, Lease, is_submitted

ENDED = "it has ended, and stays to be read for its time to live"
TAKEN = "it has ended, and its cluster took it away"


def heard_of_its_cluster(
    lease: Lease,
    verdict: Judgement,
    inventories: Inventories,
    labelled: Sequence[Found],
    silent: Collection[str],
    now: float,
) -> Judgement:
    """Returns what is to become of a lease, once its cluster was asked as well where it is of such a workload.

    One that its cluster took away, its time to live being over, is closed. One that has ended and is still to be read
    stays for that time, though its deadline has passed: it holds no hardware. `labelled`: what was found just now;
    `silent`: the places that did not answer.
    """
    if not is_submitted(lease) or lease.owner is not None or lease.state not in HELD:
        return verdict
    found = [one for one in labelled if one.lease_id == lease.lease_id]
    if verdict.act == "release":
        over = bool(found) and all(one.stays_until is not None and one.stays_until > now for one in found)
        return Judgement("keep", ENDED) if over else verdict
    heard = all(ref.scope.partition("/")[0] not in silent for ref in lease.resources)
    if not found and heard and all(is_there(inventories, ref) is False for ref in lease.resources):
        return Judgement("release", TAKEN)
    return verdict
