"""Clusters whose changing was cut short: what was kept stays, what is half made goes, the lease says what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from runtime.contract.errors import InfrastructureError, Leaked
from tasks.cloud.container import Container
from tasks.cloud.container_errors import StockedOut
from tasks.leases.clusters import POOL, ClusterInventory
from tasks.leases.holding import Holding
from tasks.leases.lease import Lease, State
from tasks.leases.ledger import latest
from tasks.leases.reaper import reap
from tasks.leases.release import Release
from tasks.stages import clusters
from tasks.stages.cluster_standing import describe
from tasks.stages.clusters import (
    Declined,
    create,
    delete,
    resize,
)
from tasks.targets.cluster_asked import Asked
from tasks.targets.cluster_making import NotWhole
from tests.cloud.container.hurried import REGION, ZONE
from tests.cloud.container.leasing import a_ledger, config, office, quick_inventories
from tests.cloud.container.running import Gke


def lease() -> Lease:
    found = latest(a_ledger(), "cluster-mine_proj")
    assert found is not None
    return found


def killed_at(monkeypatch: pytest.MonkeyPatch, edge: type, call: str, do: Callable[[], object]) -> None:
    """Does this, and is dead at the first call of this name; nobody here is left to put anything back."""

    def die(*words: object, **more: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(edge, call, die)
        patched.setattr(clusters, "_back_out", lambda *words, **more: None)
        do()
    owner = lease().owner
    assert owner is not None
    a_ledger().write(replace(lease(), owner=replace(owner, started_at=owner.started_at - 1000.0)))


def test_a_stockout_of_some_slices(gke: Gke) -> None:
    gke.set(only_room_for=2)
    with pytest.raises(NotWhole, match="0 of 2|2 of 4 node pools of mine are there.*GCE_STOCKOUT"):
        create(office(), "mine", config(slices=4))
    assert (gke.inventory(), lease().state) == ([], State.GONE)
    with pytest.raises(NotWhole, match="2 of 4"):
        create(office(), "mine", config(slices=4), partly=True)
    assert sorted(gke.pools("mine")) == ["cpu", "np-0", "np-1"]
    assert (lease().state, lease().owner, lease().stands) == (State.LIVE, None, True)
    gke.set(only_room_for=None)
    assert len(create(office(), "mine", config(slices=4)).slices) == 4


def test_what_goes_again_is_told(gke: Gke) -> None:
    said: list[str] = []
    gke.set(quotas={f"CT5LP/{REGION}": 0})
    with pytest.raises(NotWhole):
        create(office(said.append), "mine", config(slices=1))
    assert said[-2:] == [
        "giving back 1 resource (gke_cluster mine): it was not made whole",
        "given back: nothing of it is left",
    ]


def test_a_quota_for_some_slices_lets_these_be_kept(gke: Gke) -> None:
    gke.set(quotas={f"CT5LP/{REGION}": 16})
    with pytest.raises(NotWhole, match="1 of 4 node pools of mine are there: np-1, np-2, np-3: "):
        create(office(), "mine", config(slices=4), partly=True)
    assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING"}
    assert (lease().owner, lease().unconfirmed) == (None, False)
    assert len([one for one in gke.mutations() if one["method"] == "CreateNodePool"]) <= 2


def test_a_resize_that_fails_leaves_what_works_and_is_repeatable(gke: Gke) -> None:
    create(office(), "mine", config(slices=2))
    gke.set(stockouts=[ZONE])
    with pytest.raises(NotWhole):
        resize(office(), "mine", 3)
    assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING", "np-1": "RUNNING"}
    gke.set(stockouts=[], quotas={f"CT5LP/{REGION}": 32})
    with pytest.raises(NotWhole, match="2 of 3 node pools of mine are there: np-2: .*uota") as told:
        resize(office(), "mine", 3)
    assert told.value.trouble == "quota"
    assert (lease().owner, lease().unconfirmed, len(gke.pools("mine"))) == (None, False, 3)
    gke.set(quotas={})
    assert len(resize(office(), "mine", 3).slices) == 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"failing_clusters": ["mine"]}, "registered"),
        ({"quotas": {f"CPUS/{REGION}": 8}}, "Insufficient regional quota"),
        ({"denied": ["CreateCluster"]}, "container.clusters.create"),
        ({"denied": ["CreateNodePool"]}, "container.clusters.update"),
    ],
)
def test_one_that_fails_is_given_back_whole(gke: Gke, settings: dict[str, Any], words: str) -> None:
    gke.set(**settings)
    said: list[str] = []
    with pytest.raises(Exception, match=words):
        create(office(said.append), "mine", config())
    if any(line.startswith("giving back ") for line in said):
        assert said[-1] == "given back: nothing of it is left"
    assert (gke.inventory(), lease().state) == ([], State.GONE)


def test_an_interrupt_gives_a_new_one_back_and_puts_a_kept_one_back(gke: Gke) -> None:
    def interrupted(line: str, at: str = "np-1") -> None:
        if line.startswith(f"make pool {at}"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create(office(interrupted), "mine", config(slices=2))
    assert (gke.inventory(), lease().state) == ([], State.GONE)
    create(office(), "mine", config(slices=1))
    with pytest.raises(KeyboardInterrupt):
        resize(office(interrupted), "mine", 2)
    assert (lease().owner, lease().state, gke.pools("mine")) == (
        None,
        State.LIVE,
        {"cpu": "RUNNING", "np-0": "RUNNING"},
    )
    one = lease().price_per_hour
    with pytest.raises(KeyboardInterrupt):
        resize(office(lambda line: interrupted(line, "np-2")), "mine", 3)
    assert one
    assert describe(office(), "mine").price_per_hour == pytest.approx(2 * one)


def test_an_interrupt_while_it_is_given_back_or_put_back_names_what_stands(
    gke: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(line: str) -> None:
        if line.startswith(("make pool np-1", "giving back ")):
            raise KeyboardInterrupt

    def interrupt(*words: object, **more: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(
        Leaked, match=r"2 resources \(gke_cluster mine, gke_node_pool np-0\) may .*slicebench reap"
    ):
        create(office(impatient), "mine", config(slices=2))
    delete(office(), "mine")
    create(office(), "mine", config())
    with monkeypatch.context() as patched, pytest.raises(Leaked, match="mine was put back .*slicebench reap"):
        patched.setattr(clusters, "give_back_half_made", interrupt)
        resize(office(impatient), "mine", 2)
    with monkeypatch.context() as patched, pytest.raises(Leaked, match="gke_node_pool np-0"):
        patched.setattr(ClusterInventory, "delete", interrupt)
        delete(office(), "mine")
    delete(office(), "mine")
    with pytest.raises(KeyboardInterrupt):  # nothing was made yet
        create(office(interrupt), "mine", config())
    assert gke.inventory() == []


@pytest.mark.parametrize("who", ["reaper", "same again", "delete"])
def test_what_a_killed_resize_had_half_made_goes_or_is_finished(
    gke: Gke, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    create(office(), "mine", config(slices=1))
    gke.set(slow={"CREATE_NODE_POOL": 0.2})
    killed_at(monkeypatch, Asked, "follow", lambda: resize(office(), "mine", 2))
    was = {"cpu": "RUNNING", "np-0": "RUNNING"}
    assert gke.pools("mine").keys() == {*was, "np-1"}
    if who == "delete":
        delete(office(), "mine")
        assert gke.inventory() == []
        return
    if who == "reaper":
        [found] = reap(a_ledger(), quick_inventories(a_ledger()))
        assert (found.did, [ref.name for ref in found.resources]) == ("put back", ["np-1"])
    else:
        resize(office(), "mine", 2)
        was["np-1"] = "RUNNING"
    assert (gke.pools("mine"), lease().owner) == (was, None)
    assert not any(ref.half for ref in lease().resources)
    assert {ref.name for ref in lease().resources if ref.kind == POOL} == was.keys() - {"cpu"}


def test_an_interrupt_in_mid_pool_takes_that_back(gke: Gke, monkeypatch: pytest.MonkeyPatch) -> None:
    create(office(), "mine", config(slices=1))
    gke.set(slow={"CREATE_NODE_POOL": 0.2})

    def interrupt(*words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Asked, "follow", interrupt)
    with pytest.raises(KeyboardInterrupt):
        resize(office(), "mine", 2)
    assert (gke.pools("mine"), lease().owner) == ({"cpu": "RUNNING", "np-0": "RUNNING"}, None)


MACHINES = {"type": "l4-1", "zone": "us-central1-a"}


def machines() -> int:
    """Returns how many there are to be, as GKE says."""
    [pool] = describe(office(), "mine").slices
    return pool.expected


@pytest.mark.parametrize("who", ["reaper", "same again", "the size before", "nobody agrees"])
@pytest.mark.parametrize(("begin", "end"), [(2, 4), (4, 2)])
@pytest.mark.parametrize(("edge", "call"), [(Container, "resize_pool"), (Asked, "follow")])
def test_a_size_that_was_being_changed_is_what_the_lease_says(
    gke: Gke, monkeypatch: pytest.MonkeyPatch, edge: type, call: str, begin: int, end: int, who: str
) -> None:
    """What was to go goes, and nothing is made for somebody who is dead."""
    create(office(), "mine", config(**MACHINES, nodes=begin))
    gke.set(slow={"SET_NODE_POOL_SIZE": 0.1})
    killed_at(monkeypatch, edge, call, lambda: resize(office(), "mine", end))
    assert lease().shape["machines"] == "2"
    asked = "4 machines were asked for; until they are there, 2 are kept"
    assert describe(office(), "mine").slices[0].why == (asked if end == 4 else "only 2 machines are to stay")
    stays = {"same again": end, "the size before": begin}.get(who, 2)
    if who == "reaper":
        [found] = reap(a_ledger(), quick_inventories(a_ledger()))
        assert (found.did, "np-0 has 2 machines" in found.why) == ("put back", True)
    elif who == "nobody agrees":
        with pytest.raises(Declined):
            resize(office(), "mine", 5, agree=lambda planned: False)
    else:
        resize(office(), "mine", stays)
    assert (machines(), lease().shape["machines"], lease().owner) == (stays, str(stays), None)
    assert not any(ref.resizing for ref in lease().resources)


def test_a_size_that_somebody_asked_for_is_there_before_the_lease_says_so(
    gke: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(office(), "mine", config(**MACHINES, nodes=2))
    killed_at(monkeypatch, Asked, "follow", lambda: resize(office(), "mine", 4))
    gke.spoil("mine", "np-0", "RECONCILING")
    said: list[Sequence[str]] = []

    def come(asked: Asked, name: str) -> None:
        said.append([ref.name for ref in lease().resources if ref.resizing])
        gke.spoil("mine", name, "RUNNING")

    monkeypatch.setattr(Asked, "await_pool", come)
    resize(office(), "mine", 4)
    assert said == [["np-0"]]
    assert (machines(), any(ref.resizing for ref in lease().resources)) == (4, False)


def test_machines_that_cannot_be_had_leave_those_that_were_there(
    gke: Gke, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(office(), "mine", config(**MACHINES, nodes=2))

    def refused(*words: object) -> NoReturn:
        raise StockedOut("no l4 left")

    monkeypatch.setattr(
        Asked, "follow", refused
    )  # it ended in an error, and GKE keeps the size that it was to have
    with pytest.raises(StockedOut):
        resize(office(), "mine", 4)
    assert (machines(), lease().shape["machines"]) == (2, "2")


@pytest.mark.parametrize("call", ["create_cluster", "create_pool"])
@pytest.mark.parametrize("who", ["reaper", "a smaller one", "nobody agrees"])
def test_one_in_error_whose_replacement_was_cut_short(
    gke: Gke, monkeypatch: pytest.MonkeyPatch, who: str, call: str
) -> None:
    create(office(), "mine", config(slices=2))
    gke.spoil("mine")
    killed_at(monkeypatch, Container, call, lambda: create(office(), "mine", config(slices=2)))
    assert (lease().shape["slices"], lease().price_per_hour) == ("0", 0.0)
    if who == "a smaller one":
        create(office(), "mine", config(slices=1))
        assert gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING"}
        assert {ref.name for ref in lease().resources if ref.ours} == {"mine", "np-0"}
        assert lease().shape["slices"] == "1"
        return
    if who == "nobody agrees":
        with pytest.raises(Declined):
            create(office(), "mine", config(slices=1), agree=lambda planned: False)
    else:
        reap(a_ledger(), quick_inventories(a_ledger()))
    if call == "create_pool":
        assert (gke.pools("mine"), lease().state) == ({"cpu": "RUNNING"}, State.LIVE)
        assert {ref.name for ref in lease().resources if ref.ours} == {"mine"}
    else:
        assert (gke.inventory(), lease().state) == ([], State.GONE)


def test_what_went_without_us_does_not_count(gke: Gke) -> None:
    create(office(), "mine", config(slices=3))
    price = lease().price_per_hour
    gke.vanish("mine", "np-1")
    gke.vanish("mine", "np-2")
    resize(office(), "mine", 1)
    assert {ref.name for ref in lease().resources if ref.ours} == {"mine", "np-0"}
    assert price
    assert (lease().shape["slices"], lease().price_per_hour) == ("1", pytest.approx(price / 3))


def test_what_came_in_part_is_what_the_lease_says(gke: Gke) -> None:
    gke.set(only_room_for=2)
    with pytest.raises(NotWhole):
        create(office(), "mine", config(slices=4), partly=True)
    assert lease().shape["slices"] == "2"
    with pytest.raises(NotWhole):
        resize(office(), "mine", 3)
    assert lease().shape["slices"] == "2"


@pytest.mark.parametrize("interrupted", [True, False])
def test_what_is_not_proven_gone_has_leaked_however_it_ended(
    gke: Gke, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    real = Holding.release

    def unproven(*words: Any) -> Release:
        done = real(*words)
        return replace(done, lease=replace(done.lease, state=State.LEAKED, note="np-0 is still there"))

    def impatient(line: str) -> None:
        if line == "make pool np-0":
            raise KeyboardInterrupt

    if not interrupted:
        gke.set(quotas={f"CT5LP/{REGION}": 0})
    monkeypatch.setattr(Holding, "release", unproven)
    why = "" if interrupted else "0 of 1 node pools of mine .*; "
    with pytest.raises(Leaked, match=f"^{why}not proven gone: np-0 is still there; .*slicebench reap"):
        create(office(impatient) if interrupted else office(), "mine", config())


@pytest.mark.parametrize(
    ("ended_by", "told_as", "words"),
    [
        (KeyboardInterrupt(), Leaked, "mine could not be put back: GKE is away"),
        (StockedOut("no room"), StockedOut, "no room"),
    ],
)
def test_what_cannot_be_put_back_has_leaked_where_somebody_interrupted(
    gke: Gke, monkeypatch: pytest.MonkeyPatch, ended_by: BaseException, told_as: type[Exception], words: str
) -> None:
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        if line == "make pool np-1":
            raise ended_by

    def away(*anything: object) -> NoReturn:
        raise InfrastructureError("GKE is away")

    create(office(), "mine", config())
    monkeypatch.setattr(clusters, "give_back_half_made", away)
    with pytest.raises(told_as, match=words):
        resize(office(hear), "mine", 2)
    warned = "warning: cluster mine could not be put back: GKE is away; do the same again" in said
    assert warned is (told_as is StockedOut)
