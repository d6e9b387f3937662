"""Pull the plug at every mutating call that a cluster sees while JobSet, Kueue and the queue are put into it.

In a new cluster everything goes; one that was kept stays, and the same call again leads to the same cluster as if
nothing had happened. What is put in is what a workload needs: that is looked at, not the number of objects.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_gke import access_of
from tasks.cloud.kubernetes_kinds import CLUSTER_QUEUE, DEPLOYMENT, LOCAL_QUEUE, PRIORITY_CLASS
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.leases.reaper import reap
from tasks.stages.cluster_inside import Inside
from tasks.stages.cluster_standing import existing
from tasks.stages.clusters import create, delete, resize
from tasks.targets.kube_controllers import JOBSET, KUEUE
from tasks.targets.kube_install import await_ready
from tests.chaos.driver import outcome
from tests.chaos.inside import SOON, WITHOUT, calls_inside, fault, moments_of
from tests.cloud.container.leasing import a_ledger, config, office, quick_inventories
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.releases import Releases, release
from tests.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def releases() -> Iterator[Releases]:
    with Releases.served() as served:
        yield served


@pytest.fixture
def empty(gke: Gke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gke:
    """GKE, in whose clusters nothing is installed."""
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gke.credentials()))
    gke.set(kubernetes=WITHOUT)
    return gke


class Made:
    """The cluster `mine`, played with by processes of their own: whoever forks may have no connections."""

    def __init__(self, gke: Gke, releases: Releases) -> None:
        self.gke, self.releases = gke, releases

    def create(self, slices: int = 1, *, install: bool = True) -> None:
        queueing = self.releases.queueing() if install else {"install": False}
        create(office(inside=Inside(waits=SOON)), "mine", config(slices=slices, queueing=queueing))

    def resize(self, slices: int) -> None:
        resize(office(inside=Inside(waits=SOON)), "mine", slices)

    def delete(self) -> None:
        delete(office(), "mine")

    def check(self, slices: int = 1) -> None:
        """Sees that workloads can be submitted, and get as many chips as there are."""
        api = Kubernetes(access_of(existing(office(), "mine")))
        for part in (JOBSET, KUEUE):
            api.get(DEPLOYMENT, part.deployment, part.namespace)
        groups = api.get(CLUSTER_QUEUE, "cluster-queue")["spec"]["resourceGroups"]
        assert groups[0]["flavors"][0]["resources"][0]["nominalQuota"] == str(16 * slices), groups
        assert api.get(LOCAL_QUEUE, "multislice-queue")["spec"]["clusterQueue"] == "cluster-queue"
        assert len(api.list(PRIORITY_CLASS).items) >= 5

    def calls(self) -> list[str]:
        """Returns the mutating calls that the cluster saw since this was asked last, each once."""
        return calls_inside(self.gke)

    def done(self, do: Callable[[], None], at: object = None) -> None:
        assert outcome(do) == 0, at

    def killed(self, do: Callable[[], None], call: str, moment: str) -> None:
        """Plays until the plug is pulled at a call to the cluster that is there."""
        self.gke.kubernetes("mine").fault(**fault(call, moment))
        assert outcome(do) == -signal.SIGKILL, (call, moment)
        self.gke.kubernetes("mine").fault()

    def swept(self, did: str, at: object) -> None:
        """Lets a reaper do this to the one lease that there is."""

        def sweep() -> None:
            ledger = a_ledger()
            assert [one.did for one in reap(ledger, quick_inventories(ledger))] == [did]

        self.done(sweep, at)


@pytest.fixture
def made(empty: Gke, releases: Releases) -> Made:
    return Made(empty, releases)


def test_killed_while_a_kept_cluster_is_set_up(made: Made) -> None:
    """It stays, and the same call again ends as the first one should have."""
    made.done(lambda: made.create(install=False))
    made.done(made.create)
    calls = made.calls()
    assert len(calls) > 20
    for at in moments_of(calls):
        made.gke.kubernetes("mine").tell("empty")
        made.killed(made.create, *at)
        made.swept("put back", at)
        assert made.gke.pools("mine") == {"cpu": "RUNNING", "np-0": "RUNNING"}, at
        made.done(made.create, at)
        made.done(made.check, at)
    made.done(made.delete)
    assert made.gke.inventory() == []


def test_killed_while_a_new_cluster_is_set_up(made: Made) -> None:
    """It goes with all that is in it; without a reaper the same call finishes it, and a delete leaves nothing."""
    made.done(made.create)
    calls = list({call.split()[1]: call for call in made.calls()}.values())  # one of each kind
    made.done(made.delete)
    for number, at in enumerate(moments_of(calls)):
        made.gke.set(kubernetes={**WITHOUT, "faults": [fault(*at)]})
        assert outcome(made.create) == -signal.SIGKILL, at
        made.gke.set(kubernetes=WITHOUT)
        if number % 2:
            made.swept("released", at)
        else:
            made.gke.kubernetes("mine").fault()
            made.done(made.create, at)
            made.done(made.check, at)
            made.done(made.delete, at)
        assert made.gke.inventory() == [], at
        lease = latest(a_ledger(), "cluster-mine_proj")
        assert lease is not None and lease.state is State.GONE, at
    until(lambda: made.gke.behind() == [])


def objects(gke: Gke) -> dict[str, list[str]]:
    told: dict[str, list[str]] = gke.kubernetes("mine").inventory()["objects"]
    return {kind: names for kind, names in told.items() if kind != "events"}


def deployments(api: Kubernetes) -> list[tuple[str, int]]:
    """Returns which controllers there are, and how often somebody changed them."""
    found = [api.get(DEPLOYMENT, part.deployment, part.namespace)["metadata"] for part in (JOBSET, KUEUE)]
    return [(one["uid"], one["generation"]) for one in found]


def test_killed_while_slices_are_added_to_a_cluster_that_others_set_up(made: Made) -> None:
    """JobSet and Kueue of theirs stay as they are; what is added goes, with its queue, at each moment."""
    gke = made.gke
    key = gke.put("mine", pools=[{"name": "theirs", "config": {"machine_type": "e2-standard-16"}}])
    until(lambda: "kubernetes" in gke.store.read()["clusters"][key])
    api = Kubernetes(by_context("standin", str(gke.kubernetes("mine").kubeconfig)))
    for part in (JOBSET, KUEUE):
        for one in release(part.name):
            api.apply(one)
        await_ready(api, part, SOON)
    standing, theirs = objects(gke), deployments(api)
    made.calls()
    made.done(made.create)
    calls = made.calls()
    assert not [call for call in calls if "deployments" in call or "customresource" in call], calls
    made.done(made.delete)
    for at in moments_of(calls):
        made.killed(made.create, *at)
        made.swept("released", at)
        assert (objects(gke), gke.inventory()) == (standing, [key, f"{key}/nodePools/theirs"]), at
    made.done(made.create)
    made.done(made.delete)
    assert objects(gke) == standing
    assert deployments(api) == theirs


@pytest.mark.parametrize(("begin", "end"), [(1, 2), (2, 1), (1, 0)])
def test_killed_while_the_queue_follows_a_resize(made: Made, begin: int, end: int) -> None:
    """What was kept is put back; once repeated, the queue has as many chips as the cluster."""
    made.done(lambda: made.create(begin))
    made.calls()
    made.done(lambda: made.resize(end))
    calls = made.calls()
    assert any("clusterqueues" in call for call in calls), calls
    for at in moments_of(calls):
        made.done(lambda: made.resize(begin), at)
        made.killed(lambda: made.resize(end), *at)
        made.swept("put back", at)
        made.done(lambda: made.resize(end), at)
        assert len(made.gke.pools("mine")) == 1 + end, at
        if end:
            made.done(lambda: made.check(end), at)
    made.done(made.delete)
    assert made.gke.inventory() == []
