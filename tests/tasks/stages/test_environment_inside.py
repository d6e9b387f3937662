"""What is inside an environment's cluster: a namespace and a queue for each team, and the account that pods act as."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.container_model import Cluster
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_gke import access_of
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    DEPLOYMENT,
    JOB_SET,
    LOCAL_QUEUE,
    NAMESPACE,
    RESOURCE_FLAVOR,
    SERVICE_ACCOUNT,
    WORKLOAD,
    Kind,
)
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.stages.cluster_standing import existing
from tasks.stages.environment import down, up
from tasks.stages.environment_desk import Desk
from tasks.stages.environment_inside import inside_of
from tasks.stages.environment_plan import plan
from tasks.targets.kube_install import Waits
from tasks.targets.kube_objects import condition
from tests.cloud.container.leasing import office
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.manifests import jobset
from tests.cloud.kubernetes.releases import Releases
from tests.cloud.project.leasing import desk, environment
from tests.waiting import PATIENCE_S, until

SOON = Waits(ready_s=PATIENCE_S, answers_s=PATIENCE_S, look_s=0.02)


@pytest.fixture(scope="module")
def releases() -> Iterator[Releases]:
    with Releases.served() as served:
        yield served


@pytest.fixture
def empty(project: Gke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gke:
    """A project in whose clusters neither JobSet nor Kueue is installed."""
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(project.credentials()))
    project.set(kubernetes={"without": ["jobset", "kueue"]})
    return project


PUT_IN = "inside mine: put JobSet and Kueue in, and queues for lab, training"


def looking_inside(say: Callable[[str], None] = lambda line: None) -> Desk:
    def inside(config: EnvironmentConfig) -> Any:
        return inside_of(config, "proj", say, SOON)

    return desk(say, inside=inside)


def by_hand(api: Kubernetes) -> list[tuple[Callable[[], Any], str]]:
    """Returns changes, and what a plan says of each."""
    whom = {"iam.gke.io/gcp-service-account": "me@example.com"}
    meta = "metadata.annotations.iam.gke.io/gcp-service-account"
    return [
        (
            lambda: api.patch(SERVICE_ACCOUNT, "cloud-tpu-sa", {"metadata": {"annotations": whom}}, "lab"),
            f'change ServiceAccount cloud-tpu-sa in lab: {meta}: "me@example.com" → '
            '"cloud-tpu-sa@proj.iam.gserviceaccount.com"',
        ),
        (
            lambda: api.delete(LOCAL_QUEUE, "multislice-queue", "lab"),
            "make LocalQueue multislice-queue in lab",
        ),
        (
            lambda: api.patch(CLUSTER_QUEUE, "team-training", {"spec": {"cohortName": "other"}}),
            'change ClusterQueue team-training: spec.cohortName: "other" → "teams"',
        ),
        (
            lambda: api.patch(CLUSTER_QUEUE, "team-training", {"spec": HELD}),
            'change ClusterQueue team-training: spec.stopPolicy: "Hold" → "None"; spec.queueingStrategy: '
            '"StrictFIFO" → "BestEffortFIFO"; spec.namespaceSelector.matchLabels: {"a": "b"} → nothing',
        ),
        (
            lambda: api.patch(
                LOCAL_QUEUE,
                "multislice-queue",
                {"metadata": {"labels": {BY: None}}, "spec": {"stopPolicy": "Hold"}},
                "lab",
            ),
            f'change LocalQueue multislice-queue in lab: metadata.labels.{BY}: nothing → "slicebench"; '
            'spec.stopPolicy: "Hold" → "None"',
        ),
        (
            lambda: api.patch(RESOURCE_FLAVOR, "v5e-4x4", {"spec": {"nodeLabels": {"a.b/c": "d"}}}),
            'change ResourceFlavor v5e-4x4: spec.nodeLabels.a.b/c: "d" → nothing',
        ),
        (
            lambda: api.delete(DEPLOYMENT, "kueue-controller-manager", "kueue-system"),
            "put Kueue v0.19.2 in",
        ),
    ]


BY = "app.kubernetes.io/managed-by"
HELD = {
    "stopPolicy": "Hold",
    "queueingStrategy": "StrictFIFO",
    "namespaceSelector": {"matchLabels": {"a": "b"}},
}


def what_lost_its_labels_is_told_and_stays(api: Kubernetes, wanted: EnvironmentConfig) -> None:
    """It may be anybody's by then, so nothing says that all is as the file has it."""
    labels = {BY: "slicebench", "slicebench-team": "training"}
    api.patch(
        CLUSTER_QUEUE,
        "team-training",
        {"metadata": {"labels": dict.fromkeys(labels)}, "spec": {"stopPolicy": "Hold"}},
    )
    stays = (
        "ClusterQueue team-training was not made by slicebench, or lost the labels that say so: it stays as it is "
        '(spec.stopPolicy: "Hold" → "None"); `kubectl label clusterqueues team-training '
        f"{BY}=slicebench slicebench-team=training` makes it slicebench's"
    )
    assert plan(looking_inside(), wanted).beside == [f"inside mine: {stays}"]
    assert up(looking_inside(), wanted).stays == [f"inside mine: {stays}"]
    api.patch(CLUSTER_QUEUE, "team-training", {"metadata": {"labels": labels}})
    assert len(plan(looking_inside(), wanted).cluster) == 1
    assert up(looking_inside(), wanted).stays == []
    assert plan(looking_inside(), wanted).empty


def who_borrowed_gives_back(api: Kubernetes, saved: Path) -> None:
    """A guest has the slice while its owner has no use for it; of one team, the more important goes first.

    Who had to go comes back in its turn, and goes on from what it had saved.
    """
    for name, space, priority in (
        ("guest", "lab", "high"),
        ("low", "training", "low"),
        ("first", "training", "high"),
    ):
        api.create(JOB_SET, slice_of(name, priority, saved / name), space)
        until(lambda: is_admitted(api, name, space))  # noqa: B023
        until(lambda: steps_of(saved / name))  # noqa: B023
    for name, space, reason in (
        ("guest", "lab", "InCohortReclamation"),
        ("low", "training", "InClusterQueue"),
    ):
        until(lambda: preempted_by(api, name, space) == reason)  # noqa: B023
        assert not is_admitted(api, name, space)
    for name, space in (("first", "training"), ("low", "training"), ("guest", "lab")):
        until(lambda: is_admitted(api, name, space))  # noqa: B023
        before = 0 if name == "first" else steps_of(saved / name)
        until(lambda: steps_of(saved / name) > before)  # noqa: B023
        api.delete(JOB_SET, name, space)
    for name in ("low", "guest"):
        begun = [int(one) for one in (saved / name / "begun").read_text().split()]
        assert begun[0] == 0 and len(begun) > 1 and begun[1] > 0, (name, begun)


TRAINING = """
import os, time
folder = {folder!r}
os.makedirs(folder, exist_ok=True)
saved = folder + "/step"
step = int(open(saved).read()) if os.path.exists(saved) else 0
if os.environ["JOB_COMPLETION_INDEX"] == "0":
    open(folder + "/begun", "a").write(f"{{step}}\\n")
    while True:
        step += 1
        open(saved + ".new", "w").write(str(step))
        os.replace(saved + ".new", saved)
        time.sleep(0.05)
time.sleep(600)
"""
"""Saves each step, and says from which it went on."""


def steps_of(folder: Path) -> int:
    """Returns how far a training came."""
    saved = folder / "step"
    return int(saved.read_text()) if saved.exists() else 0


def slice_of(name: str, priority: str, folder: Path) -> dict[str, Any]:
    """Returns a JobSet that trains on a slice of 4 hosts with 4 chips each, until somebody ends it."""
    made: dict[str, Any] = jobset(
        name, TRAINING.format(folder=str(folder)), slices=1, pods=4, queue="multislice-queue",
        pod={"terminationGracePeriodSeconds": 1, "priorityClassName": priority},
    )  # fmt: skip
    return made


def workload_of(api: Kubernetes, name: str, space: str) -> Any:
    uid = api.get(JOB_SET, name, space)["metadata"]["uid"]
    found = api.list(WORKLOAD, space, labels={"kueue.x-k8s.io/job-uid": uid}).items
    return found[0] if found else {}


def is_admitted(api: Kubernetes, name: str, space: str) -> bool:
    found = condition(workload_of(api, name, space), "Admitted")
    return found is not None and found.true


def preempted_by(api: Kubernetes, name: str, space: str) -> str:
    found = condition(workload_of(api, name, space), "Preempted")
    return found.reason if found is not None else ""


@pytest.mark.system
def test_each_team_has_a_namespace_with_an_account_and_a_queue(
    empty: Gke, releases: Releases, tmp_path: Path
) -> None:
    teams = [{"name": "training", "slices": 1}, {"name": "research", "namespace": "lab"}]
    wanted = environment(teams=teams, queueing=releases.queueing())
    assert plan(looking_inside(), wanted).cluster[-1] == PUT_IN
    said: list[str] = []
    done = up(looking_inside(said.append), wanted)
    assert PUT_IN in said
    assert {"cluster mine", "Namespace lab", "ServiceAccount cloud-tpu-sa in lab", "JobSet", "Kueue"} <= set(
        done.made
    )
    assert {"ClusterQueue team-training", "LocalQueue multislice-queue in lab"} <= set(done.made)
    api = Kubernetes(access_of(existing(office(), "mine")))
    for space in ("training", "lab"):
        assert api.find(NAMESPACE, space) is not None
        account = api.get(SERVICE_ACCOUNT, "cloud-tpu-sa", space)
        whom = account["metadata"]["annotations"]["iam.gke.io/gcp-service-account"]
        assert whom == "cloud-tpu-sa@proj.iam.gserviceaccount.com"
        leads = api.get(LOCAL_QUEUE, "multislice-queue", space)["spec"]["clusterQueue"]
        assert leads == {"training": "team-training", "lab": "cluster-queue"}[space]
    members = [one for one in empty.project_inventory()["roles"] if "workloadIdentityUser" in one]
    assert [one.rpartition("[")[2] for one in members] == ["lab/cloud-tpu-sa]", "training/cloud-tpu-sa]"]
    assert plan(looking_inside(), wanted).empty
    for change, told in by_hand(api):
        change()
        assert plan(looking_inside(), wanted).cluster == [f"inside mine: {told}"]
        done = up(looking_inside(said.append), wanted)
        did = [told.removeprefix("make ")]
        assert [*done.made, *done.changed] == did and bool(done.made) is told.startswith("make ")
        assert f"inside mine: {told}" in said
        assert plan(looking_inside(), wanted).empty
    what_lost_its_labels_is_told_and_stays(api, wanted)
    who_borrowed_gives_back(api, tmp_path / "saved")
    alone = environment(teams=teams[1:], queueing=releases.queueing())
    assert plan(looking_inside(), alone).cluster[-2:] == [
        "inside mine: take away ClusterQueue team-training",
        "inside mine: take away LocalQueue multislice-queue in training",
    ]
    assert set(up(looking_inside(), alone).gone) >= {
        "ClusterQueue team-training",
        "LocalQueue multislice-queue in training",
    }
    assert api.find(CLUSTER_QUEUE, "team-training") is None
    assert api.find(LOCAL_QUEUE, "multislice-queue", "training") is None
    assert api.find(NAMESPACE, "training") is not None, "it may hold what is somebody's"
    assert plan(looking_inside(), alone).empty
    up(looking_inside(), environment(teams=teams, queueing=releases.queueing(), tpu_pools=0))
    down(looking_inside(), wanted, bucket=True)
    assert empty.inventory() == []


def test_what_cannot_be_fetched_stops_it_before_anything_is_made(empty: Gke, releases: Releases) -> None:
    wrong = releases.queueing()
    wrong["jobset"] = {**wrong["jobset"], "sha256": "0" * 64}
    with pytest.raises(BadInput):
        up(looking_inside(), environment(queueing=wrong))
    assert [one["method"] for one in empty.mutations()] == []


class Half:
    """A cluster into which one of Kueue's definitions was put before whoever did it was ended."""

    def serves(self, kind: Kind) -> bool:
        return kind in (JOB_SET, CLUSTER_QUEUE)

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> None:
        """Finds nothing."""


def test_kueue_that_was_put_in_by_half_is_put_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.stages.environment_inside.Kubernetes", lambda access, timing: Half())
    monkeypatch.setattr("tasks.stages.environment_inside.access_of", lambda cluster, namespace: None)
    config, said = environment(), list[str]()
    inside = inside_of(config, "proj", said.append)
    *_, last = inside.differences(
        Cluster("proj", "us-east5", "mine", "1", "RUNNING"), cluster_of(config, "proj")
    )
    assert last == "put Kueue in, and queues for tpu-training" and said == []
