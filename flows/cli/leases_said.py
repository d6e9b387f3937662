"""What `slicebench leases` says of one lease: a line of what it holds, and what is to be known besides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.config.duration import in_words

if TYPE_CHECKING:
    from tasks.leases.finding import Judgement
    from tasks.leases.lease import Lease
    from tasks.leases.presently import Present
    from tasks.leases.resource import ResourceRef

_MOST_NAMED = 12
"""Things of one lease that a line names: an environment has some thirty."""
_SIGN = re.compile(r"#[0-9a-f]{8}(?=( of .+)?/)")
"""What tells a cluster from another of its name, in the scope of a JobSet: it is no part of what people call it."""


def lines_of(
    lease: Lease, verdict: Judgement, there: Present | None, now: float, told_before: set[str]
) -> Iterator[str]:
    """Yields what is said of a lease. `told_before` is what was said of leases before: it is not said again."""
    yield _row(lease, there.state if there and there.state != "there" else str(lease.state), now)
    yield f"    {'fine' if verdict.act == 'keep' else 'reapable'}: {verdict.why}"
    yield from (f"    {line}" for line in _more(lease, there, told_before))
    if words := _elsewhere(lease):
        yield f"    its run: {words}"
    yield from (f"    forgotten: {line}" for line in lease.forgotten)


def _more(lease: Lease, there: Present | None, before: set[str]) -> Iterator[str]:
    """Yields what else is to be said of what is there, and what to do about it."""
    from tasks.leases.lease import is_submitted

    if there is None or there.state == "there":
        return
    if there.state == "unknown":
        why = "the same" if there.told in before else there.told
        before.add(there.told)
        yield f"whether it is still there is not known: {why}"
    elif not is_submitted(lease):
        next_ = (
            f"slicebench run --resume {lease.run_id}"
            if lease.run_id
            else f"slicebench reap --lease {lease.name}"
        )
        yield f"its workload has ended: {next_}" if there.state == "ended" else f"{there.told}: {next_}"


def _row(lease: Lease, state: str, now: float) -> str:
    from tasks.leases.keeping import in_dollars
    from tasks.leases.lease import is_lock

    if is_lock(lease):
        return f"{lease.lease_id}  lock on " + ", ".join(
            f"{ref.name} in {ref.scope}" for ref in lease.resources
        )
    until = "no expiry" if lease.expires_at is None else _until(lease.expires_at - now)
    whose = str(lease.owner) if lease.owner else "no owner"
    made = ", ".join(_counted(lease) or [f"{_named(ref)}{_about(ref)}" for ref in lease.resources])
    renewed = f"renewed {in_words(max(0.0, now - lease.renewed_at))} ago"
    price = in_dollars(lease.price_per_hour) if any(ref.ours for ref in lease.resources) else "nothing made"
    return f"{lease.lease_id}  {state}  {whose}  {renewed}, {until}  {price}  {made}"


def _counted(lease: Lease) -> list[str]:
    """Returns how many things of each kind a lease has; nothing where they are few enough to be named."""
    if len(lease.resources) <= _MOST_NAMED:
        return []
    kinds = Counter(ref.kind for ref in lease.resources)
    return [f"{many} × {kind}" for kind, many in kinds.items()] + ["all by name with --json"]


def _named(ref: ResourceRef) -> str:
    """Returns a thing with where it is, where that says more than its name does."""
    elsewhere = ref.kind not in ("process", "directory", "share") and not ref.inside
    where = _SIGN.sub("", ref.scope)
    return f"{ref.kind} {ref.name}{f' in {where}' if elsewhere else ''}"


def _about(ref: ResourceRef) -> str:
    """Returns what is to be known of a thing besides its name."""
    if not ref.ours:
        return " (adopted)"
    return f" ({ref.resizing})" if ref.resizing else ""


def _elsewhere(lease: Lease) -> str:
    """Returns the run as commands take it, with where its folder is, where that is not the usual place."""
    from tasks.config.commands import output_words, run_words

    there = lease.folder.rpartition("/")[0]
    return run_words(lease.folder) if there and output_words(there) else ""


def _until(left_s: float) -> str:
    return f"expires in {in_words(left_s)}" if left_s > 0 else f"expired {in_words(-left_s)} ago"
