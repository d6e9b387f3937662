"""What is inside an environment's cluster: a namespace and a queue for each team, and the account that pods act as."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_gke import access_of
from tasks.cloud.kubernetes_kinds import LOCAL_QUEUE, NAMESPACE, SERVICE_ACCOUNT
from tasks.config.environment import EnvironmentConfig
from tasks.stages.cluster_standing import existing
from tasks.stages.environment import down, up
from tasks.stages.environment_desk import Desk
from tasks.stages.environment_inside import inside_of
from tasks.stages.environment_plan import plan
from tasks.targets.kube_install import Waits
from tests.cloud.container.leasing import office
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.releases import Releases
from tests.cloud.project.leasing import desk, environment
from tests.waiting import PATIENCE_S

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


def looking_inside() -> Desk:
    def inside(config: EnvironmentConfig) -> Any:
        return inside_of(config, "proj", lambda line: None, SOON)

    return desk(inside=inside)


@pytest.mark.system
def test_each_team_has_a_namespace_with_an_account_and_a_queue(empty: Gke, releases: Releases) -> None:
    teams = [{"name": "training"}, {"name": "research", "namespace": "lab"}]
    wanted = environment(teams=teams, queueing=releases.queueing())
    up(looking_inside(), wanted)
    api = Kubernetes(access_of(existing(office(), "mine")))
    for space in ("training", "lab"):
        assert api.find(NAMESPACE, space) is not None
        account = api.get(SERVICE_ACCOUNT, "cloud-tpu-sa", space)
        whom = account["metadata"]["annotations"]["iam.gke.io/gcp-service-account"]
        assert whom == "cloud-tpu-sa@proj.iam.gserviceaccount.com"
        assert api.get(LOCAL_QUEUE, "multislice-queue", space)["spec"]["clusterQueue"] == "cluster-queue"
    members = [one for one in empty.project_inventory()["roles"] if "workloadIdentityUser" in one]
    assert [one.rpartition("[")[2] for one in members] == ["lab/cloud-tpu-sa]", "training/cloud-tpu-sa]"]
    assert plan(looking_inside(), wanted).empty
    up(looking_inside(), environment(teams=teams, queueing=releases.queueing(), tpu_pools=0))
    down(looking_inside(), wanted, bucket=True)
    assert empty.inventory() == []


def test_what_cannot_be_fetched_stops_it_before_anything_is_made(empty: Gke, releases: Releases) -> None:
    wrong = releases.queueing()
    wrong["jobset"] = {**wrong["jobset"], "sha256": "0" * 64}
    with pytest.raises(BadInput):
        up(looking_inside(), environment(queueing=wrong))
    assert [one["method"] for one in empty.mutations()] == []
