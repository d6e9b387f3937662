"""The state machine of a lease: what each step does, and in which states it is allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.leases import steps
from tasks.leases.lease import HELD, Lease, Owner, State, lease_id
from tasks.leases.resource import ResourceRef
from tasks.leases.steps import IllegalTransition

OWNER = Owner("here", "boot", "pid:[1]", 10, 5.0, "ann", "c0")
REAPER = Owner("here", "boot", "pid:[1]", 11, 6.0, "ann", "c1")
NODE = ResourceRef("node", "zone", "n0")


def planned() -> Lease:
    return steps.plan("run", "run", 1, OWNER, 100.0, 160.0)


def in_state(state: State) -> Lease:
    return replace(planned(), state=state)


def test_the_way_of_a_good_run() -> None:
    lease = steps.intend(planned(), NODE)
    assert lease.state is State.CREATING
    assert lease.unconfirmed
    lease = steps.live(steps.confirm(lease, replace(NODE, uid="u1")))
    assert (lease.state, lease.unconfirmed) == (State.LIVE, False)
    lease = steps.releasing(lease, REAPER, 120.0, "done")
    assert lease.owner == REAPER
    lease = steps.gone(lease)
    assert (lease.state, lease.owner) == (State.GONE, None)
    assert lease_id("run", 2) == "run-e2"


STEPS = {
    "intend": (lambda lease: steps.intend(lease, NODE), HELD),
    "adopt": (lambda lease: steps.adopt(lease, NODE), HELD),
    "forget": (lambda lease: steps.forget(lease, NODE), HELD),
    "live": (steps.live, HELD),
    "renew": (lambda lease: steps.renew(lease, 110.0, None), HELD | {State.RELEASING}),
    "take": (lambda lease: steps.take(lease, REAPER, 110.0, None), HELD),
    "detach": (lambda lease: steps.detach(lease, 110.0, 500.0), HELD),
    "stand": (lambda lease: steps.stand(lease, 500.0), HELD),
    "fall": (steps.fall, HELD),
    "join": (lambda lease: steps.join(lease, "other-e1"), HELD),
    "leave": (lambda lease: steps.leave(lease, "other-e1"), set(State)),
    "releasing": (lambda lease: steps.releasing(lease, REAPER, 110.0, "why"), set(State) - {State.GONE}),
    "serve": (lambda lease: steps.serve(lease, "other", "/runs/other"), HELD),
    "partly_gone": (lambda lease: steps.partly_gone(lease, [NODE], "why"), {State.RELEASING}),
    "strike_off": (lambda lease: steps.strike_off(lease, [NODE]), {State.RELEASING}),
    "strike_off_by_word": (lambda lease: steps.strike_off_by_word(lease, [NODE], ["x"]), {State.RELEASING}),
    "leaked": (lambda lease: steps.leaked(lease, "why"), {State.RELEASING}),
    "gone": (steps.gone, {State.RELEASING}),
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_allowed_in_exactly_its_states(state: State, name: str) -> None:
    step, allowed = STEPS[name]
    if state in allowed:
        step(in_state(state))
    else:
        with pytest.raises(IllegalTransition, match=f"run-e1.*{state}"):
            step(in_state(state))


def test_live_needs_every_intent_confirmed() -> None:
    with pytest.raises(IllegalTransition, match="n0 is not known to exist"):
        steps.live(steps.intend(planned(), NODE))


def test_confirm_needs_an_intent_of_our_own() -> None:
    with pytest.raises(IllegalTransition, match="never intended"):
        steps.confirm(planned(), replace(NODE, uid="u1"))
    with pytest.raises(IllegalTransition, match="never intended"):
        steps.confirm(steps.adopt(planned(), NODE), replace(NODE, uid="u1"))


def test_what_we_made_cannot_become_adopted() -> None:
    with pytest.raises(IllegalTransition, match="made node n0 itself"):
        steps.adopt(steps.intend(planned(), NODE), NODE)


def test_time_never_runs_backwards() -> None:
    assert steps.renew(planned(), 50.0, None).renewed_at == 100.0


def test_a_shared_lease_is_not_released_under_its_holders() -> None:
    lease = steps.join(steps.join(replace(planned(), expires_at=None), "a-e1"), "b-e1")
    with pytest.raises(IllegalTransition, match="shared by a-e1, b-e1"):
        steps.releasing(lease, REAPER, 110.0, "why")
    lease = steps.leave(lease, "a-e1")
    assert lease.expires_at is None
    lease = steps.leave(lease, "b-e1")
    assert lease.expires_at == 100.0, "the last one out ends what was made for a run"
    assert steps.releasing(lease, REAPER, 110.0, "why").state is State.RELEASING


def test_what_is_kept_for_a_time_stays_for_it_when_the_last_holder_leaves() -> None:
    assert steps.leave(steps.join(planned(), "a-e1"), "a-e1").expires_at == 160.0


def test_capacity_made_for_no_run_stays_when_the_last_holder_leaves() -> None:
    capacity = replace(steps.join(planned(), "a-e1"), run_id=None, expires_at=None)
    assert steps.leave(capacity, "a-e1").expires_at is None
