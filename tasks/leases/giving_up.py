"""Releases one lease because somebody says so, and strikes off what is gone though nobody can look: by their word."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from runtime.contract.errors import BadInput
from tasks.leases import owner as owners
from tasks.leases import steps
from tasks.leases.beyond import is_there
from tasks.leases.blind import refuse_without_login
from tasks.leases.carrying_out import carry_out
from tasks.leases.finding import Finding, Judgement
from tasks.leases.inventory import Inventories
from tasks.leases.judging import CONFIRM_S, judge_from_here, watch
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import Ledger, latest
from tasks.leases.patience import USUAL, Patience
from tasks.leases.resource import ResourceRef


class GoingAlready(BadInput):
    """Somebody else who lives gives the lease back already."""


def give_up(
    ledger: Ledger,
    inventories: Inventories,
    name: str,
    *,
    forget: Sequence[str] = (),
    dry_run: bool = False,
    patience: Patience = USUAL,
    confirm_s: float = CONFIRM_S,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Finding:
    """Releases one lease, by its name or id, because somebody says so: kept hardware before its time, say.

    `forget` names, by kind, name or scope, what is gone although nobody can look there: it is struck off, and the
    lease says by whose word. Raises BadInput for a lease that is not there, for one whose owner lives, which is to
    be stopped first (GoingAlready where it just gives the lease back), and for what is to be forgotten and can be
    seen to be there. A lease that seems to be dead is watched as `reap` does.
    """
    lease = latest(ledger, name) or ledger.read(name)
    if lease is None:
        raise BadInput(f"there is no lease {name} in {ledger.uri}", fix="see slicebench leases")
    if lease.state is State.GONE:
        return Finding(lease.lease_id, "kept", "gone already: nothing is left of it")
    if lease.holders:
        raise BadInput(f"lease {name} is shared by {', '.join(lease.holders)}", fix="give those back first")
    [(_, verdict)] = watch(ledger, [(lease, judge_from_here(lease, now()))], confirm_s, sleep)
    if lease.owner is not None and verdict.act == "keep":
        if lease.state is State.RELEASING:
            raise GoingAlready(
                f"lease {name} is just being given back: {verdict.why}",
                fix="nothing more is to be done: slicebench leases shows when it is gone",
            )
        stop = "stop that run" if lease.run_id else "wait for it, or stop it"
        raise BadInput(f"lease {name} is in use: {verdict.why}", fix=f"{stop}: it gives everything back")
    why = "asked for by name"
    refuse_without_login(inventories, lease)
    if forgotten := _to_forget(lease, inventories, forget):
        owner = owners.this_process()
        why = f"asked for by name; forgotten by {owner.user}'s word: {_told(forgotten)}"
        if not dry_run:
            held = ledger.write(steps.releasing(lease, owner, now(), why))
            lease = ledger.write(
                steps.strike_off_by_word(held, forgotten, _history(forgotten, owner.user, now()))
            )
    return carry_out(ledger, lease, Judgement("release", why), inventories, dry_run, patience, now)


def _to_forget(lease: Lease, inventories: Inventories, words: Sequence[str]) -> Sequence[ResourceRef]:
    """Returns what the words name. Raises BadInput for one that names nothing, or what is still there."""
    found: list[ResourceRef] = []
    for word in words:
        named = [ref for ref in lease.resources if ref.ours and word in (ref.kind, ref.name, ref.scope)]
        if not named:
            has = ", ".join(ref.key for ref in lease.resources if ref.ours) or "nothing"
            raise BadInput(
                f"lease {lease.lease_id} made no {word}: it has {has}",
                fix="name a kind, a name or a place of these",
            )
        found += [ref for ref in named if ref not in found]
    for ref in found:
        if is_there(inventories, ref):
            raise BadInput(
                f"{ref.key} is still there: it is given back, not forgotten",
                fix=f"slicebench reap --lease {lease.lease_id}, without --forget",
            )
    return found


def _told(refs: Sequence[ResourceRef]) -> str:
    return ", ".join(ref.key for ref in refs)


def _history(refs: Sequence[ResourceRef], user: str, now: float) -> Sequence[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    return [f"{ref.key}: not seen to be gone, struck off by {user}'s word, {when}" for ref in refs]
