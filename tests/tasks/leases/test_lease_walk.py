"""The state machine of a lease by random walks of two processes and those who share it, beside a model of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tasks.leases import steps
from tasks.leases.lease import HELD, Lease, Owner, State
from tasks.leases.resource import ResourceRef
from tasks.leases.steps import IllegalTransition

FIRST = Owner("here", "boot", "pid:[1]", 10, 5.0, "ann", "c0")
SECOND = Owner("there", "boot", "pid:[1]", 11, 6.0, "bob", "c1")

actors = st.sampled_from([FIRST, SECOND])
names = st.sampled_from(["n0", "n1", "n2"])
times = st.floats(0, 1e6)
sharers = st.sampled_from(["x-e1", "y-e1"])


def node(name: str, uid: str | None = None) -> ResourceRef:
    return ResourceRef("node", "zone", name, uid)


class Walk(RuleBasedStateMachine):
    """Takes random steps and keeps beside the lease a model of what must be true.

    Whoever took the lease last acts on it; the other must take it first, or release it, which fences the former.
    """

    @initialize(run_id=st.sampled_from(["run", None]), expires_at=st.sampled_from([160.0, None]))
    def start(self, run_id: str | None, expires_at: float | None) -> None:
        self.lease: Lease = steps.plan("run", run_id, 1, FIRST, 100.0, expires_at)
        self.owner: Owner | None = FIRST
        self.held_by = FIRST
        self.ours: set[str] = set()
        self.adopted: set[str] = set()
        self.holders: set[str] = set()
        self.forgotten = 0
        self.released = False
        self.renewed_at = 100.0

    @precondition(lambda self: self.lease.state in HELD)
    @rule(name=names)
    def intend(self, name: str) -> None:
        self.lease = steps.intend(self.lease, node(name))
        self.ours.add(name)
        self.adopted.discard(name)
        assert self.lease.unconfirmed

    @precondition(lambda self: self.lease.state in HELD)
    @rule(name=names)
    def adopt(self, name: str) -> None:
        if name in self.ours:
            with pytest.raises(IllegalTransition, match="made node"):
                steps.adopt(self.lease, node(name, "theirs"))
            return
        self.lease = steps.adopt(self.lease, node(name, "theirs"))
        self.adopted.add(name)

    @precondition(lambda self: self.lease.state in HELD)
    @rule(name=names)
    def confirm(self, name: str) -> None:
        if name not in self.ours:
            with pytest.raises(IllegalTransition, match="never intended"):
                steps.confirm(self.lease, node(name, "uid"))
            return
        self.lease = steps.confirm(self.lease, node(name, f"uid-{name}"))

    @precondition(lambda self: self.lease.state in HELD)
    @rule(name=names)
    def forget(self, name: str) -> None:
        self.lease = steps.forget(self.lease, node(name))
        self.ours.discard(name)
        self.adopted.discard(name)

    @precondition(lambda self: self.lease.state in HELD)
    @rule()
    def live(self) -> None:
        if self.lease.unconfirmed:
            with pytest.raises(IllegalTransition, match="is not known to exist"):
                steps.live(self.lease)
            return
        self.lease = steps.live(self.lease)
        assert self.lease.state is State.LIVE

    @precondition(lambda self: self.lease.state in HELD | {State.RELEASING})
    @rule(now=times)
    def renew(self, now: float) -> None:
        self.lease = steps.renew(self.lease, now, now + 60)

    @precondition(lambda self: self.lease.state in HELD)
    @rule(who=actors, now=times)
    def take(self, who: Owner, now: float) -> None:
        self.lease = steps.take(self.lease, who, now, now + 60)
        self.owner = self.held_by = who

    @precondition(lambda self: self.lease.state in HELD)
    @rule(now=times, expires_at=st.none() | times)
    def detach(self, now: float, expires_at: float | None) -> None:
        self.lease = steps.detach(self.lease, now, expires_at)
        self.owner = None
        assert self.lease.expires_at == expires_at

    @precondition(lambda self: self.lease.state in HELD)
    @rule(run_id=st.sampled_from(["run", "other"]))
    def serve(self, run_id: str) -> None:
        before = self.lease
        self.lease = steps.serve(before, run_id, f"/runs/{run_id}")
        assert replace(self.lease, run_id=before.run_id, folder=before.folder) == before

    @precondition(lambda self: self.lease.state in HELD)
    @rule(who=sharers)
    def join(self, who: str) -> None:
        self.lease = steps.join(self.lease, who)
        self.holders.add(who)

    @rule(who=sharers)
    def leave(self, who: str) -> None:
        before = self.lease
        self.lease = steps.leave(before, who)
        last_out = self.holders == {who}
        self.holders.discard(who)
        ends = last_out and before.run_id is not None and before.expires_at is None
        assert self.lease.expires_at == (before.renewed_at if ends else before.expires_at)

    @precondition(lambda self: self.lease.state is not State.GONE)
    @rule(who=actors, now=times)
    def release(self, who: Owner, now: float) -> None:
        if self.holders:
            with pytest.raises(IllegalTransition, match="still shared by"):
                steps.releasing(self.lease, who, now, "why")
            return
        self.lease = steps.releasing(self.lease, who, now, "why")
        self.owner = who
        self.released = True

    @precondition(lambda self: self.lease.state is State.RELEASING)
    @rule(seen=st.sets(names), by_word=st.booleans())
    def strike_off(self, seen: set[str], by_word: bool) -> None:
        gone = [node(name) for name in seen]
        if by_word:
            self.lease = steps.strike_off_by_word(self.lease, gone, [ref.name for ref in gone])
            self.forgotten += len(gone)
        else:
            self.lease = steps.strike_off(self.lease, gone)
        self.ours -= seen
        self.adopted -= seen

    @precondition(lambda self: self.lease.state is State.RELEASING)
    @rule(seen=st.sets(names))
    def end_what_can_be_seen_from_here(self, seen: set[str]) -> None:
        left = [ref for ref in self.lease.resources if ref.ours and ref.name not in seen]
        self.lease = steps.partly_gone(self.lease, left, "the rest is elsewhere")
        assert self.lease.state is State.RELEASING, "it is not over while something is left"
        self.ours -= seen
        self.adopted.clear()
        self.owner = None

    @precondition(lambda self: self.lease.state is State.RELEASING)
    @rule(clean=st.booleans())
    def end(self, clean: bool) -> None:
        self.lease = steps.gone(self.lease) if clean else steps.leaked(self.lease, "there")
        self.owner = None

    @precondition(lambda self: self.lease.state is State.GONE)
    @rule(who=actors)
    def nothing_comes_after_the_end(self, who: Owner) -> None:
        for step in (
            lambda: steps.take(self.lease, who, 0.0, None),
            lambda: steps.releasing(self.lease, who, 0.0, "again"),
            lambda: steps.renew(self.lease, 0.0, None),
            lambda: steps.join(self.lease, "z-e1"),
            lambda: steps.intend(self.lease, node("n0")),
        ):
            with pytest.raises(IllegalTransition):
                step()

    @invariant()
    def nothing_made_is_forgotten_and_nothing_adopted_is_ours(self) -> None:
        assert {ref.name for ref in self.lease.resources if ref.ours} == self.ours
        assert {ref.name for ref in self.lease.resources if not ref.ours} == self.adopted
        listed = [ref.name for ref in self.lease.resources]
        assert len(listed) == len(set(listed))
        assert len(self.lease.forgotten) == self.forgotten, "whoever's word it was stays known"

    @invariant()
    def who_has_it_is_who_took_it_last(self) -> None:
        assert self.lease.owner == self.owner
        assert self.lease.held_by == self.held_by, "whoever releases it is not who used it"
        assert set(self.lease.holders) == self.holders
        assert len(self.lease.holders) == len(self.holders)

    @invariant()
    def a_released_lease_never_comes_back_and_time_only_grows(self) -> None:
        assert not (self.released and self.lease.state in HELD)
        assert not (self.released and self.holders), "nobody joins what is going"
        assert self.lease.renewed_at >= self.renewed_at
        self.renewed_at = self.lease.renewed_at


Walk.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestWalk = Walk.TestCase
