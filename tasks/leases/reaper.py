"""The reaper: what outlived its lease goes, and what carries a label that no lease stands behind. It says why
for each.

Safe to run twice at once (a lease is released by whoever wins its compare-and-swap), and to run anywhere:
where it cannot look at something it leaves it alone and says so. A lease that is renewed is never touched,
whatever clocks say.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from runtime.contract.errors import ExitCode, InfrastructureError, worst
from tasks.leases import steps
from tasks.leases.blind import without
from tasks.leases.carrying_out import carry_out
from tasks.leases.death import record_death
from tasks.leases.finding import Finding, Judgement
from tasks.leases.idle import unless_idle
from tasks.leases.inventory import Inventories
from tasks.leases.judging import CONFIRM_S, judge_from_here, watch
from tasks.leases.lease import Lease, State, is_lock
from tasks.leases.ledger import Conflict, Ledger, Listing
from tasks.leases.looking import Looked, look, not_asked_again
from tasks.leases.orphans import find_orphans, reap_orphan
from tasks.leases.patience import USUAL, Patience
from tasks.leases.pruning import prune
from tasks.leases.submitted import heard_of_its_cluster
from tasks.leases.together import together

_AT_ONCE = 8
"""How many leases are given back at once: each may take as long as its slowest kind."""

_DRY_WITHIN_S = 30.0
"""Who only asks what would go waits for all clouds and clusters together no longer than that."""

_AGAIN_S = 60.0
"""What leaked before is asked again, and looked at for so long only: the next reaper looks again."""

_LATELY_S = 86400.0
"""For so long it is looked whether a run whose hardware is back was killed afterwards, in compare or report."""


def reap(
    ledger: Ledger,
    inventories: Inventories,
    *,
    dry_run: bool = False,
    ended: Callable[[Lease], bool] = lambda lease: False,
    patience: Patience = USUAL,
    confirm_s: float = CONFIRM_S,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Finding]:
    """Judges every lease and every label of a ledger; returns what was done about each that is not GONE.

    `ended` tells whether somebody else (Prefect) says that a lease's run is over; that counts only once
    renewals are overdue. `confirm_s` is how long a lease whose owner cannot be looked at is watched for a
    renewal, in seconds.
    """
    # Labels are listed before leases: what carries one was written down first, so its lease is in the later
    # list.
    looked = look(ledger, inventories, _DRY_WITHIN_S if dry_run else math.inf)
    inventories = without(inventories, looked.unseen)
    asked = not_asked_again(inventories, looked)
    if dry_run:
        inventories = asked
    listing = ledger.listing()
    findings = [*looked.findings]
    findings += [Finding(error.where, "unreadable", str(error)) for error in listing.unreadable]
    standing = _let_dead_holders_go(ledger, listing, dry_run)
    judged = [(lease, judge_from_here(lease, now(), ended(lease))) for lease in standing]
    judged = [(lease, unless_idle(lease, verdict, asked)) for lease, verdict in judged]
    judged = _as_clusters_say(watch(ledger, judged, confirm_s, sleep), asked, looked, now())
    if not dry_run:
        findings += _deaths_of_late(standing, now())
    told = [one for one in judged if one[0].state is not State.GONE and not is_lock(one[0])]
    orphans = find_orphans(listing, looked.labelled)

    def job(lease: Lease, verdict: Judgement) -> Callable[[], Finding]:
        # What would not go before is not waited for long: it holds up nothing else, time after time.
        again = replace(patience, at_most_s=_AGAIN_S) if lease.state is State.LEAKED else patience
        return partial(carry_out, ledger, lease, verdict, inventories, dry_run, again, now)

    findings += together(
        [
            *(job(*one) for one in told if one[0].state is not State.LEAKED),
            *(partial(reap_orphan, orphan, inventories, dry_run, patience) for orphan in orphans),
            *(job(*one) for one in told if one[0].state is State.LEAKED),
        ],
        _AT_ONCE,
    )
    if not dry_run:
        findings = _of_the_last_out(ledger, told, findings, lambda *one: job(*one)(), now)
        findings += _pruned(ledger, listing, now())
    return findings


def _as_clusters_say(
    judged: Sequence[tuple[Lease, Judgement]], asked: Inventories, looked: Looked, now: float
) -> list[tuple[Lease, Judgement]]:
    """Judges again what goes on by itself, by what was seen of it."""
    return [
        (lease, heard_of_its_cluster(lease, verdict, asked, looked.labelled, looked.silent, now))
        for lease, verdict in judged
    ]


def exit_code(findings: list[Finding]) -> ExitCode:
    """Returns the worst of all findings."""
    return worst(finding.exit_code for finding in findings)


def _deaths_of_late(standing: Sequence[Lease], now: float) -> Iterator[Finding]:
    """Yields the ends that were written down of runs that were killed after their hardware was back."""
    for lease in standing:
        lately = lease.state is State.GONE and now - lease.renewed_at < _LATELY_S
        if lately and (death := record_death(lease)):
            yield Finding(lease.lease_id, "told", death)


def _pruned(ledger: Ledger, listing: Listing, now: float) -> Iterator[Finding]:
    """Takes leases of weeks ago out; yields what is to be said of that."""
    try:
        prune(ledger, listing, now)
    except InfrastructureError as error:
        yield Finding("leases of weeks ago", "failed", str(error))


def _of_the_last_out(
    ledger: Ledger,
    judged: Sequence[tuple[Lease, Judgement]],
    findings: list[Finding],
    carry: Callable[[Lease, Judgement], Finding],
    now: Callable[[], float],
) -> list[Finding]:
    """Judges again what was shared when all began, and whose last sharer was given back meanwhile."""
    for shared in [lease for lease, _ in judged if lease.holders]:
        try:
            lease = ledger.read(shared.lease_id)
        except InfrastructureError:  # told already, or the next reaper tells it
            continue
        if lease is None or lease.holders or lease.state is State.GONE:
            continue
        verdict = judge_from_here(lease, now())
        if verdict.act in ("release", "put back"):
            findings = [one for one in findings if one.lease_id != lease.lease_id]
            findings.append(carry(lease, verdict))
    return findings


def _let_dead_holders_go(ledger: Ledger, listing: Listing, dry_run: bool) -> list[Lease]:
    """Strikes holders whose own lease is GONE or unknown off shared leases; returns all leases."""
    living = {lease.lease_id for lease in listing.leases if lease.state is not State.GONE}
    # A holder whose file cannot be read may be alive.
    living |= {error.lease_id for error in listing.unreadable}
    standing = []
    for lease in listing.leases:
        left = lease
        for holder in lease.holders:
            if holder not in living:
                left = steps.leave(left, holder)
        if left is not lease and not dry_run:
            try:
                left = ledger.write(left)
            except Conflict:
                left = lease
        standing.append(left)
    return standing
