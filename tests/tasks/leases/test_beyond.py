"""What nobody can look at: keys that must stay, machines that their owner deleted, and what is forgotten on request."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.leases import owner as owners
from tasks.leases.claim import claim
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.giving_up import give_up
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories, Pace
from tasks.leases.lease import Lease, State
from tasks.leases.locks import lock
from tasks.leases.patience import Patience
from tasks.leases.reaper import reap
from tasks.leases.resource import ResourceRef
from tests.tasks.leases.rooms import SCOPE, Rooms

QUICK = Patience(grace_s=0.05, deadline_s=1.0, look_every_s=0.02)
REMOTE = Pace(look_every_s=0.02, goes_within_s=1.0, remote=True)
DEAD = replace(owners.this_process(), pid=4711, started_at=0.5)


@dataclass
class Shelves(Rooms):
    """What lies in a locked room: who has no key cannot look; `dark`: nor can anybody."""

    kind: str = "shelf"
    pace: Pace = REMOTE
    key: bool = True
    dark: bool = False

    def sees(self, scope: str) -> bool:
        return self.key

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        if self.dark:
            raise InfrastructureError("nobody answers the door")
        return super().get(ref)


@dataclass
class World:
    """A house that was there before, a key to it that a run got for itself, and a shelf inside."""

    ledger: DirectoryLedger
    inventories: Inventories
    house: Rooms
    shelves: Shelves
    keys: Rooms
    everything: dict[str, object] = field(default_factory=dict)

    def holding(self) -> Holding:
        self.everything.update(house=self.house, shelf=self.shelves, key=self.keys, **self.inventories)
        holding = claim(self.ledger, self.everything, "run", "run")  # type: ignore[arg-type]
        uid = self.house.open("mine", {"SLICEBENCH_LEASE": "theirs", "SLICEBENCH_LEDGER_ID": "other"})
        house = holding.adopt("house", SCOPE, "mine", uid)
        lock(holding, SCOPE, "mine")
        self.keys.rent(holding, "k0")
        holding.contain(house, frozenset({"shelf"}))
        self.shelves.rent(holding, "s0")
        holding.live()
        return holding

    def lease(self) -> Lease:
        lease = self.ledger.read("run-e1")
        assert lease is not None
        return lease

    def kinds(self) -> list[str]:
        return sorted(ref.kind for ref in self.lease().resources)

    def kill(self) -> None:
        self.ledger.write(replace(self.lease(), owner=DEAD, held_by=DEAD))

    def reap(self) -> list[str]:
        found = reap(self.ledger, self.everything, patience=QUICK, confirm_s=0.0)  # type: ignore[arg-type]
        return [one.did for one in found]


@pytest.fixture
def world(ledger: DirectoryLedger, inventories: Inventories, tmp_path: Path) -> World:
    house = Rooms(tmp_path / "street", ledger.id, kind="house", pace=REMOTE)
    shelves = Shelves(tmp_path / "shelves", ledger.id)
    keys = Rooms(tmp_path / "keys", ledger.id, kind="key", pace=REMOTE, after=frozenset({"shelf"}))
    return World(ledger, inventories, house, shelves, keys)


def test_a_key_stays_for_who_can_look_behind_the_door(world: World) -> None:
    world.holding()
    world.kill()
    world.shelves.key = False
    assert world.reap() == ["released in part"]
    assert (world.keys.names(), world.lease().state) == (["k0"], State.RELEASING)
    assert world.kinds() == ["house", "key", "shelf"], "the lock is free: it opens nothing"
    assert world.reap() == ["not reachable"]
    world.shelves.key = True
    assert world.reap() == ["released"]
    assert (world.keys.names(), world.shelves.names(), world.house.names()) == ([], [], ["mine"])


def test_a_key_stays_while_nobody_answers_behind_the_door(world: World) -> None:
    holding = world.holding()
    world.shelves.dark = True
    done = holding.release("over", QUICK)
    assert (done.lease.state, world.keys.names()) == (State.LEAKED, ["k0"])
    assert "slicebench reap --lease run-e1 --forget shelf" in done.lease.note
    world.shelves.dark = False
    assert world.reap() == ["released"]
    assert (world.keys.names(), world.shelves.names()) == ([], [])


@pytest.mark.parametrize("where", ["with the key", "from elsewhere", "from elsewhere before"])
def test_what_was_in_a_house_that_its_owner_deleted_went_with_it(world: World, where: str) -> None:
    world.holding()
    world.kill()
    world.shelves.key, world.shelves.dark = where == "with the key", True
    if where == "from elsewhere before":
        assert world.reap() == ["released in part"]
    (world.house.folder / "mine").unlink()
    assert world.reap() == ["released"]
    assert (world.lease().state, world.keys.names()) == (State.GONE, [])


def test_a_house_of_which_the_cloud_says_nothing_is_not_called_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.holding()
    world.kill()
    world.shelves.dark = True

    def silent(ref: ResourceRef) -> ResourceRef | None:
        raise InfrastructureError("the street does not answer")

    monkeypatch.setattr(world.house, "get", silent)
    assert world.reap() == ["leaked"]
    assert world.keys.names() == ["k0"]


@pytest.mark.parametrize("word", ["shelf", "s0"])
def test_what_nobody_can_look_at_is_struck_off_by_the_users_word(world: World, word: str) -> None:
    world.holding().release("over", replace(QUICK, deadline_s=0.0, at_most_s=0.0))
    world.shelves.dark = True
    world.reap()
    give = lambda *words, **more: give_up(  # noqa: E731
        world.ledger,
        world.everything,
        "run",
        forget=words,
        patience=QUICK,
        **more,  # type: ignore[arg-type]
    )
    with pytest.raises(BadInput, match=f"made no cupboard: it has .*shelf {SCOPE} s0"):
        give("cupboard")
    before = world.lease()
    assert give(word, dry_run=True).did == "would release"
    assert world.lease() == before
    found = give(word)
    assert (found.did, world.lease().state) == ("released", State.GONE)
    assert "forgotten by " in found.why
    [line] = world.lease().forgotten
    assert line.startswith(f"shelf {SCOPE} s0: not seen to be gone, struck off by {DEAD.user}'s word, 20")
    assert world.keys.names() == []


def test_what_can_be_seen_is_not_forgotten_nor_is_anything_of_a_run_that_lives(world: World) -> None:
    world.holding()
    with pytest.raises(BadInput, match="is in use"):
        give_up(world.ledger, world.everything, "run", forget=["shelf"])  # type: ignore[arg-type]
    world.kill()
    with pytest.raises(BadInput, match=r"shelf building s0 is still there: it is given back, not forgotten"):
        give_up(world.ledger, world.everything, "run", forget=["shelf"])  # type: ignore[arg-type]
    assert world.lease().state is State.LIVE
