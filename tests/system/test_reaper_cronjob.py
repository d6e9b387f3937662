"""The CronJob of deployments/reaper, applied to the stand-in for Kubernetes: its time comes, and the reaper reaps."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.contract.errors import ExitCode
from tasks.leases.ledger import Ledger
from tasks.leases.opening import open_ledger
from tests.chaos.test_kill_tpu_run import others_of
from tests.cloud.fake_gcs import gcs_bucket, gcs_url  # noqa: F401
from tests.cloud.kubernetes.client import JOBS, Plain
from tests.cloud.kubernetes.schedule import Schedule
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.cloud.tpu.running import Cloud, tpu_cloud, tpu_server  # noqa: F401
from tests.tasks.leases.container import DEPLOYMENT, lay_image, of_the_clouds
from tests.tasks.leases.test_reap_once import launched, leak, lose_the_laptop, stored
from tests.waiting import until

pytestmark = pytest.mark.system

CRON = "/apis/batch/v1/namespaces/default/cronjobs/slicebench-reaper"
PATHS = {"ServiceAccount": "/api/v1/namespaces/default/serviceaccounts/slicebench-reaper", "CronJob": CRON}


@pytest.fixture
def ledger(gcs_bucket: str) -> Ledger:
    return open_ledger(f"{gcs_bucket}/ledger")


@pytest.fixture
def cluster(ledger: Ledger, tpu_cloud: Cloud, tmp_path: Path) -> Iterator[KubernetesStandIn]:
    """A cluster on which the reaper's image is what its Dockerfile copies, and where the clouds are the stand-ins."""
    line = next(
        one for one in (DEPLOYMENT / "Dockerfile").read_text().splitlines() if one.startswith("ENTRYPOINT")
    )
    clouds = {name: value for name, value in os.environ.items() if of_the_clouds(name)}
    with KubernetesStandIn.started(
        tmp_path,
        entrypoints={"*/slicebench-reaper": json.loads(line.removeprefix("ENTRYPOINT"))},
        image_env={**clouds, "PYTHONPATH": str(lay_image(tmp_path / "app"))},
    ) as started:
        yield started


def apply(cluster: KubernetesStandIn, api: Plain, ledger: Ledger) -> dict[str, Any]:
    """Applies the file as it stands, the names in it replaced; returns the CronJob, whose time was just then."""
    text = (DEPLOYMENT / "cronjob.yaml").read_text()
    text = text.replace("gs://BUCKET/ledger", ledger.uri).replace("PROJECT", "proj").replace("REGION", "eu")
    manifests = list(yaml.safe_load_all(text))
    set_clock(cluster, manifests[-1], 1)
    for one in manifests:
        applied = api.patch(
            PATHS[one["kind"]], one, "apply-patch+yaml", 201, fieldManager="test", fieldValidation="Strict"
        )
    return applied


def set_clock(cluster: KubernetesStandIn, cron: dict[str, Any], nth: int) -> None:
    """Lets it be half a second after the nth time from now on: it is a while until the next one."""
    schedule, now = Schedule(cron["spec"]["schedule"]), time.time()
    moment = now
    for _ in range(nth):
        moment = schedule.after(moment)
    cluster.tell("skew", seconds=moment - now + 0.5)


def ends(api: Plain) -> dict[str, str]:
    """Returns how the Jobs that have ended did, by their names."""
    return {
        job["metadata"]["name"]: one["type"]
        for job in api.get(JOBS)["items"]
        for one in job["status"].get("conditions", ())
        if one["type"] in ("Complete", "Failed") and one["status"] == "True"
    }


def said(api: Plain) -> str:
    """Returns all that the pods said."""
    pods = api.names("/api/v1/namespaces/default/pods")
    return "\n".join(api.text(f"/api/v1/namespaces/default/pods/{name}/log") for name in pods)


def test_its_time_comes_and_what_a_lost_machine_made_goes(
    cluster: KubernetesStandIn, ledger: Ledger, tpu_cloud: Cloud, tmp_path: Path
) -> None:
    launched(ledger, tmp_path)
    lose_the_laptop(ledger)
    others = others_of(tpu_cloud, "run-e1")
    api = Plain(cluster.url)
    cron = apply(cluster, api, ledger)
    assert ends(api) == {}, "its time has not come"
    set_clock(cluster, cron, 2)
    # Somebody is in a hurry at the same time: kubectl create job --from=cronjob/slicebench-reaper by-hand
    by_hand = {"metadata": {"name": "by-hand"}, "spec": cron["spec"]["jobTemplate"]["spec"]}
    until(lambda: api.get(JOBS)["items"])
    api.post(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **by_hand})
    until(lambda: len(ends(api)) == 2)
    assert set(ends(api).values()) == {"Complete"}, said(api)
    assert tpu_cloud.inventory() == others
    assert {ref.kind for ref in stored(ledger).resources} == {"directory"}, "only that machine can look there"
    assert "run-e1: released in part" in said(api)


def test_what_leaked_stays_as_a_failed_job(
    cluster: KubernetesStandIn, ledger: Ledger, tmp_path: Path
) -> None:
    leak(ledger, tmp_path)
    api = Plain(cluster.url)
    set_clock(cluster, apply(cluster, api, ledger), 2)
    until(lambda: list(ends(api).values()) == ["Failed"])
    assert "room blue is still there" in said(api)
    [pod] = api.get("/api/v1/namespaces/default/pods")["items"]
    [state] = pod["status"]["containerStatuses"]
    assert state["state"]["terminated"]["exitCode"] == ExitCode.LEAKED
