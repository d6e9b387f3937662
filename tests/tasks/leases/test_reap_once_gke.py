"""The reaper's container gives back what a machine that is gone made on GKE: JobSets, node pools and clusters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_kinds import JOB_SET
from tasks.cloud.kubernetes_places import access_to, place_of_cluster, signed
from tasks.leases.claim import claim
from tasks.leases.clusters import CLUSTER, POOL
from tasks.leases.holding import Holding
from tasks.leases.jobsets import JOBSET
from tasks.leases.lease import State
from tasks.leases.opening import open_ledger
from tests.cloud.container.hurried import ZONE, container, pool_request
from tests.cloud.container.leasing import quick_inventories
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.manifests import jobset
from tests.tasks.leases.container import enter, lay_image
from tests.waiting import until

pytestmark = pytest.mark.system  # GKE's things are given time to settle, as they need

SCOPE = f"proj/{ZONE}"


@pytest.fixture
def holding(gke: Gke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Holding:
    """A run's lease on a cluster that was there before, with Kubernetes behind it."""
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gke.credentials()))
    gke.set(kubernetes={})
    key = gke.put("theirs", location=ZONE, pools=[pool_request("np-7")])
    until(lambda: "kubernetes" in gke.store.read()["clusters"][key])
    ledger = open_ledger(str(tmp_path / "ledger"))
    holding = claim(ledger, quick_inventories(ledger, tmp_path), "run", "run")
    ref = holding.adopt(CLUSTER, SCOPE, "theirs", container().cluster(ZONE, "theirs").uid)
    holding.contain(ref, frozenset({POOL}))
    return holding


def lose_the_laptop(holding: Holding) -> None:
    """Makes the lease one that another machine launched long ago, of which nothing was heard since."""
    lease = holding.ledger.read("run-e1")
    assert lease is not None and lease.owner is not None
    owner = replace(lease.owner, host="laptop", boot_id="another")
    holding.ledger.write(replace(lease, owner=owner, renewed_at=1000.0, expires_at=1180.0))


def made(api: Kubernetes, name: str, labels: dict[str, str]) -> str:
    """Makes a JobSet; returns its uid."""
    container = {"name": "c", "image": "i:1", "command": ["sleep", "600"]}
    pod = {"restartPolicy": "Never", "nodeSelector": {}, "tolerations": [], "containers": [container]}
    body = jobset(name, slices=1, pods=1, pod=pod, labels=labels)
    del body["metadata"]["annotations"]
    return str(api.create(JOB_SET, body)["metadata"]["uid"])


def test_the_laptop_is_gone_for_good(holding: Holding, gke: Gke, tmp_path: Path) -> None:
    place = f"{place_of_cluster('proj', ZONE, 'theirs')}/default"
    labels, access = dict(holding.resource_labels), access_to(place)
    api = Kubernetes(access)
    holding.create(JOBSET, signed(place, access), "sb-run", lambda: made(api, "sb-run", labels))
    made(api, "somebodys", {})
    request = pool_request("np-0", labels)
    holding.create(
        POOL, f"{SCOPE}/theirs", "np-0", lambda: container().create_pool(ZONE, "theirs", request)[0].uid
    )
    before = gke.inventory()
    lose_the_laptop(holding)
    done = enter(
        lay_image(tmp_path / "app"), tmp_path / "nobody", "--ledger", holding.ledger.uri, "--watch", "0.1"
    )
    assert (done.code, done.did) == (ExitCode.DONE, {"run-e1": "released"}), done.said
    lease = holding.ledger.read("run-e1")
    assert lease is not None and lease.state is State.GONE
    assert gke.inventory() == [name for name in before if not name.endswith("np-0")]
    assert [one["metadata"]["name"] for one in api.list(JOB_SET).items] == ["somebodys"]
