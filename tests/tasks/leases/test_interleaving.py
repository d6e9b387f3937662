"""Two runs and two reapers at once on one shared thing, step by step in any order, with deaths in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.cloud.labels import labels_for
from tasks.leases import owner as owners
from tasks.leases import reaper, steps
from tasks.leases.claim import claim
from tasks.leases.finding import Finding
from tasks.leases.holding import Fenced
from tasks.leases.inventory import HERE, Found, Inventories
from tasks.leases.lease import Lease, Owner, State
from tasks.leases.locks import LockInventory
from tasks.leases.patience import Patience
from tasks.leases.resource import ResourceRef
from tasks.leases.shares import ShareInventory, share
from tasks.leases.steps import IllegalTransition
from tests.tasks.leases.steps import Actor, Killed, MemoryLedger, Stage

NOW = 1_000_000.0
SHARED = "tpu-mine-e1"
PATIENT = Patience(grace_s=0.0, deadline_s=60.0, look_every_s=0.0)


@dataclass
class Rooms:
    """Everything outside: a room is its name and the lease on its label. See Inventory."""

    stage: Stage
    there: dict[str, str] = field(default_factory=dict)
    kind: str = "room"
    pace = HERE
    settle_s = 0.0
    after: frozenset[str] = frozenset()

    def open(self, name: str, lease_id: str) -> str:
        self.stage.pause()
        self.there[name] = lease_id
        return name

    def sees(self, scope: str) -> bool:
        return True

    def list(self, lease_id: str | None) -> Sequence[Found]:
        self.stage.pause()
        return [
            Found(lease, ResourceRef("room", "house", name, name))
            for name, lease in self.there.items()
            if lease_id in (None, lease)
        ]

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        self.stage.pause()
        return ref if ref.name in self.there else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        self.stage.pause()
        self.there.pop(ref.name, None)


class World:
    """A shared room whose lease has expired, two runs that want to use it, and two reapers."""

    def __init__(self, clocks_agree: bool) -> None:
        self.stage = Stage()
        self.ledger = MemoryLedger(self.stage)
        self.rooms = Rooms(self.stage)
        self.clocks_agree = clocks_agree
        self.reapers_clock = NOW if clocks_agree else NOW + 1000.0
        self.findings: list[Finding] = []
        self.claims: dict[str, Actor | None] = {}
        made = steps.plan("tpu-mine", None, 1, None, NOW - 900.0, NOW - 1.0)
        made = steps.confirm(*_intended(made, ResourceRef("room", "house", "shared", "shared")))
        self.ledger.write(steps.live(made))
        self.rooms.open("shared", SHARED)

    @property
    def inventories(self) -> Inventories:
        locks = LockInventory(self.ledger, after=frozenset({"room"}))
        return {"room": self.rooms, "lock": locks, "share": ShareInventory(self.ledger)}

    def run(self, name: str) -> None:
        """A run: a room of its own, and the use of the shared one for as long as its lease is its own."""
        holding = claim(self.ledger, self.inventories, name, name, now=lambda: NOW)
        lease_id = holding.lease.lease_id
        holding.create("room", "house", name, lambda: self.rooms.open(name, lease_id))
        try:
            share(holding, labels_for(SHARED, self.ledger.id))
            holding.live()
            for _ in range(2):
                holding.check()
                assert "shared" in self.rooms.there, f"{name} uses it, and it is gone"
                assert name in self.rooms.there, f"{name} lives, and what it made is gone"
                holding.renew()
        except IllegalTransition as error:
            assert "cannot share" in str(error), error
        holding.release("over", PATIENT)

    def reap(self) -> None:
        self.findings += reaper.reap(
            self.ledger,
            self.inventories,
            patience=PATIENT,
            now=lambda: self.reapers_clock,
            sleep=lambda seconds: self.stage.pause(),
        )

    def this_process(self) -> Owner:
        claim_id = f"c{len(self.claims)}"
        self.claims[claim_id] = self.stage.me()
        return Owner("here", "boot", "pid:[1]", 1, 1.0, "ann", claim_id)

    def is_alive(self, owner: Owner) -> bool | None:
        """Here a dead process is known to be dead; where clocks differ nothing is known, as of another machine."""
        if not self.clocks_agree:
            return None
        actor = self.claims[owner.claim]
        return actor is not None and not (actor.dead or actor.done)

    @contextmanager
    def staged(self) -> Iterator[None]:
        """Has processes be actors, and what one does at once be done in turn."""
        with ExitStack() as stack:
            for name, stand_in in (
                ("this_process", self.this_process),
                ("is_alive", self.is_alive),
                ("is_this_process", lambda owner: self.claims[owner.claim] is self.stage.me()),
                ("is_of_another_boot", lambda owner: False),
            ):
                stack.enter_context(mock.patch.object(owners, name, stand_in))
            stack.enter_context(
                mock.patch.object(reaper, "together", lambda jobs, at_once: [one() for one in jobs])
            )
            yield


def _intended(lease: Lease, ref: ResourceRef) -> tuple[Lease, ResourceRef]:
    return steps.intend(lease, ref), ref


@settings(max_examples=30, deadline=None)
@given(
    picks=st.lists(st.integers(0, 3), max_size=250),
    kills=st.dictionaries(
        st.sampled_from(["a", "b", "reaper 1", "reaper 2"]), st.integers(1, 40), max_size=3
    ),
    clocks_agree=st.booleans(),
)
@example(picks=[0, 1] * 60, kills={}, clocks_agree=True)
@example(picks=[0, 1, 2, 3] * 60, kills={"a": 9, "reaper 1": 12}, clocks_agree=True)
@example(picks=[0, 2, 1, 3] * 60, kills={}, clocks_agree=False)
def test_two_runs_and_two_reapers_on_one_shared_thing(
    picks: Sequence[int], kills: Mapping[str, int], clocks_agree: bool
) -> None:
    world = World(clocks_agree)
    actors = [
        Actor("a", lambda: world.run("a")),
        Actor("b", lambda: world.run("b")),
        Actor("reaper 1", world.reap),
        Actor("reaper 2", world.reap),
    ]
    for actor in actors:
        actor.killed_at = kills.get(actor.name)
    with world.staged():
        world.stage.play(actors, picks)
        for actor in actors:
            allowed: tuple[type[BaseException], ...] = (Killed,) if clocks_agree else (Killed, Fenced)
            if actor.error is not None and not isinstance(actor.error, allowed):
                raise actor.error
        # A reaper that listed labels before the other one was through finds those without a lease behind them.
        released = [
            one.lease_id
            for one in world.findings
            if one.did == "released" and not one.why.startswith("labelled with")
        ]
        assert len(released) == len(set(released)), "each is released by one"
        world.reapers_clock = NOW + 10_000.0
        for _ in range(3):  # what one strikes off as a holder, the next may release
            world.reap()
    assert world.rooms.there == {}, "whatever died, nothing stays"
    ends = {lease.lease_id: (lease.state, lease.holders) for lease in world.ledger.listing().leases}
    assert ends == dict.fromkeys(ends, (State.GONE, ()))
