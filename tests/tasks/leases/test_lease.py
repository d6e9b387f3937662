"""The state machine of a lease: what each step does, and in which states it is allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.leases import lease as leases
from tasks.leases.lease import HELD, IllegalTransition, Lease, Owner, State
from tasks.leases.resource import ResourceRef

OWNER = Owner("here", "boot", "pid:[1]", 10, 5.0, "ann", "c0")
REAPER = Owner("here", "boot", "pid:[1]", 11, 6.0, "ann", "c1")
NODE = ResourceRef("node", "zone", "n0")


def planned() -> Lease:
    return leases.plan("run", "run", 1, OWNER, 100.0, 160.0)


def in_state(state: State) -> Lease:
    return replace(planned(), state=state)


def test_the_way_of_a_good_run() -> None:
    lease = leases.intend(planned(), NODE)
    assert lease.state is State.CREATING
    assert lease.unconfirmed
    lease = leases.live(leases.confirm(lease, replace(NODE, uid="u1")))
    assert (lease.state, lease.unconfirmed) == (State.LIVE, False)
    lease = leases.releasing(lease, REAPER, 120.0, "done")
    assert lease.owner == REAPER
    lease = leases.gone(lease)
    assert (lease.state, lease.owner) == (State.GONE, None)
    assert leases.lease_id("run", 2) == "run-e2"


STEPS = {
    "intend": (lambda lease: leases.intend(lease, NODE), HELD),
    "adopt": (lambda lease: leases.adopt(lease, NODE), HELD),
    "forget": (lambda lease: leases.forget(lease, NODE), HELD),
    "live": (leases.live, HELD),
    "renew": (lambda lease: leases.renew(lease, 110.0, None), HELD | {State.RELEASING}),
    "take": (lambda lease: leases.take(lease, REAPER, 110.0, None), HELD),
    "detach": (lambda lease: leases.detach(lease, 110.0, 500.0), HELD),
    "stand": (lambda lease: leases.stand(lease, 500.0), HELD),
    "fall": (leases.fall, HELD),
    "join": (lambda lease: leases.join(lease, "other-e1"), HELD),
    "leave": (lambda lease: leases.leave(lease, "other-e1"), set(State)),
    "releasing": (lambda lease: leases.releasing(lease, REAPER, 110.0, "why"), set(State) - {State.GONE}),
    "serve": (lambda lease: leases.serve(lease, "other", "/runs/other"), HELD),
    "partly_gone": (lambda lease: leases.partly_gone(lease, [NODE], "why"), {State.RELEASING}),
    "strike_off": (lambda lease: leases.strike_off(lease, [NODE]), {State.RELEASING}),
    "strike_off_by_word": (lambda lease: leases.strike_off_by_word(lease, [NODE], ["x"]), {State.RELEASING}),
    "leaked": (lambda lease: leases.leaked(lease, "why"), {State.RELEASING}),
    "gone": (leases.gone, {State.RELEASING}),
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
        leases.live(leases.intend(planned(), NODE))


def test_confirm_needs_an_intent_of_our_own() -> None:
    with pytest.raises(IllegalTransition, match="never intended"):
        leases.confirm(planned(), replace(NODE, uid="u1"))
    with pytest.raises(IllegalTransition, match="never intended"):
        leases.confirm(leases.adopt(planned(), NODE), replace(NODE, uid="u1"))


def test_what_we_made_cannot_become_adopted() -> None:
    with pytest.raises(IllegalTransition, match="made node n0 itself"):
        leases.adopt(leases.intend(planned(), NODE), NODE)


def test_time_never_runs_backwards() -> None:
    assert leases.renew(planned(), 50.0, None).renewed_at == 100.0


def test_a_shared_lease_is_not_released_under_its_holders() -> None:
    lease = leases.join(leases.join(replace(planned(), expires_at=None), "a-e1"), "b-e1")
    with pytest.raises(IllegalTransition, match="shared by a-e1, b-e1"):
        leases.releasing(lease, REAPER, 110.0, "why")
    lease = leases.leave(lease, "a-e1")
    assert lease.expires_at is None
    lease = leases.leave(lease, "b-e1")
    assert lease.expires_at == 100.0, "the last one out ends what was made for a run"
    assert leases.releasing(lease, REAPER, 110.0, "why").state is State.RELEASING


def test_what_is_kept_for_a_time_stays_for_it_when_the_last_holder_leaves() -> None:
    assert leases.leave(leases.join(planned(), "a-e1"), "a-e1").expires_at == 160.0


def test_capacity_made_for_no_run_stays_when_the_last_holder_leaves() -> None:
    capacity = replace(leases.join(planned(), "a-e1"), run_id=None, expires_at=None)
    assert leases.leave(capacity, "a-e1").expires_at is None
