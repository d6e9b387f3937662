"""What is to become of a lease: judged by its own renewals, and watched before a silence is believed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tasks.leases import owner as owners
from tasks.leases.finding import Act, Judgement
from tasks.leases.holding import OVERDUE_S, RENEW_EVERY_S
from tasks.leases.lease import HELD, Lease, State, is_lock, is_submitted
from tasks.leases.ledger import Ledger

_KEPT = ("the time it was kept for is", "kept on purpose")

CONFIRM_S = 2.5 * RENEW_EVERY_S
"""How long a lease that seems to be dead is watched for a renewal before that is believed, seconds."""


def judge_from_here(lease: Lease, now: float, ended: bool = False) -> Judgement:
    """Says what is to become of a lease, and why, by what this machine knows of its owner.

    `ended`: somebody else (Prefect) says that its run is over.
    """
    if lease.owner is None:
        return judge(lease, now, None, ended)
    alive, restarted = owners.is_alive(lease.owner), owners.is_of_another_boot(lease.owner)
    return judge(lease, now, alive, ended, restarted)


def judge(lease: Lease, now: float, alive: bool | None, ended: bool, restarted: bool = False) -> Judgement:
    """Says what is to become of a lease, and why. Pure. `alive`: the owner lives; None: not known.

    `restarted`: its machine seems to have been; that counts, as `ended` does, only once renewals are overdue.
    """
    overdue = now - lease.renewed_at > OVERDUE_S
    expired = lease.expires_at is not None and lease.expires_at <= now
    silence = f"its last renewal was {max(0.0, now - lease.renewed_at):.0f} s ago"
    if lease.state is State.GONE:
        return Judgement("keep", "gone")
    if is_lock(lease):
        return Judgement("keep", f"locked by {lease.holders[0]}" if lease.holders else "a lock, and free")
    if lease.holders:
        return Judgement("keep", f"shared by {', '.join(lease.holders)}")
    if lease.state is State.LEAKED:
        return Judgement("release", f"leaked before: {lease.note}")
    if lease.owner is None and lease.state is State.RELEASING:
        return Judgement("release", lease.note)
    if lease.owner is None:
        why = ("its turn and its deadline are", "goes on by itself") if is_submitted(lease) else _KEPT
        if lease.note:
            why = (_KEPT[0], lease.note)
        if expired:
            return Judgement("release", f"{why[0]} over")
        return Judgement("keep", why[1] + ("" if lease.expires_at is None else ", not expired yet"))
    if alive is False:
        return Judgement(_without_owner(lease, now), f"{lease.owner} is gone")
    if overdue and (expired or ended or restarted or lease.state is State.RELEASING):
        said = (
            "expired"
            if expired
            else "its run has ended"
            if ended
            else "its machine was restarted"
            if restarted
            else "its release stands still"
        )
        return Judgement("watch", f"{said} and {silence}")
    return Judgement("keep", f"{lease.owner} {'lives' if alive else 'is elsewhere'}, {silence}")


def _without_owner(lease: Lease, now: float) -> Act:
    """Says what becomes of a lease whose owner is gone: capacity that stands outlives who worked on it."""
    over = lease.stands_until is not None and lease.stands_until <= now
    return "put back" if lease.stands and not over and lease.state in HELD else "release"


def watch(
    ledger: Ledger,
    judged: list[tuple[Lease, Judgement]],
    confirm_s: float = CONFIRM_S,
    sleep: Callable[[float], None] = time.sleep,
) -> list[tuple[Lease, Judgement]]:
    """Looks again at those to be watched: a lease that changed meanwhile is alive, whatever clocks say."""
    if not any(verdict.act == "watch" for _, verdict in judged):
        return judged
    sleep(confirm_s)
    result = []
    for lease, verdict in judged:
        if verdict.act == "watch":
            again = ledger.read(lease.lease_id)
            if again is not None and again.generation == lease.generation:
                verdict = replace(verdict, act=_without_owner(lease, time.time()))
            else:
                verdict = Judgement("keep", "it was renewed while it was watched")
        result.append((lease, verdict))
    return result
