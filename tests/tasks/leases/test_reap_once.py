"""The reaper's container gives back what a machine launched that it knows by name only, and leaves the rest alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.contract.errors import ExitCode
from tasks.leases import directories, steps
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.leases.inventory import open_inventories
from tasks.leases.lease import Lease, State, is_lock
from tasks.leases.ledger import Ledger
from tasks.leases.locks import lock
from tasks.leases.opening import open_ledger
from tasks.leases.reap_once import _parser
from tasks.leases.reaper import reap
from tests.cloud.tpu.leasing import make_node, make_queued
from tests.cloud.tpu.running import Cloud
from tests.tasks.leases.container import DEPLOYMENT, enter, lay_image


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_image(tmp_path_factory.mktemp("app"))


@pytest.fixture
def ledger(gcs_bucket: str) -> Ledger:
    return open_ledger(f"{gcs_bucket}/ledger")


@pytest.fixture
def container(image: Path, ledger: Ledger, tmp_path: Path) -> Any:
    """Runs the image's entry point on the ledger; returns exit code, what it printed as JSON, and what it said."""

    def run(*more: str) -> tuple[int, Mapping[str, Any], str]:
        done = enter(image, tmp_path / "nobody", "--ledger", ledger.uri, "--watch", "0.3", *more)
        return done.code, done.told, done.said

    return run


def launched(ledger: Ledger, scratch: Path, name: str = "run") -> Holding:
    """Returns a run's lease with a node, a queued resource, a folder here, and a lock."""
    holding = claim(ledger, open_inventories(ledger, scratch), name, name)
    folder = directories.reference(scratch / name)
    make = lambda: directories.make(scratch / name, holding.labels)  # noqa: E731
    holding.create(folder.kind, folder.scope, folder.name, make)
    lock(holding, "proj", "cluster")
    make_node(holding, f"{name}-n")
    make_queued(holding, f"{name}-q")
    return holding


def stored(ledger: Ledger, lease_id: str = "run-e1") -> Lease:
    lease = ledger.read(lease_id)
    assert lease is not None
    return lease


def lose_the_laptop(ledger: Ledger, lease_id: str = "run-e1") -> None:
    """Makes the lease one that another machine launched long ago, of which nothing was heard since."""
    lease = stored(ledger, lease_id)
    assert lease.owner is not None
    resources = tuple(
        replace(ref, scope="laptop") if ref.kind == "directory" else ref for ref in lease.resources
    )
    owner = replace(lease.owner, host="laptop", boot_id="another")
    ledger.write(replace(lease, owner=owner, resources=resources, renewed_at=1000.0, expires_at=1180.0))


def leak(ledger: Ledger, scratch: Path) -> None:
    """Puts a lease there of which something could not be proven gone."""
    holding = claim(ledger, open_inventories(ledger, scratch), "run", "run")
    holding.create("room", "building", "blue", lambda: "blue")
    held = steps.releasing(holding.lease, holding.lease.owner, 0.0, "x")  # type: ignore[arg-type]
    ledger.write(steps.leaked(ledger.write(held), "room blue is still there"))


def test_the_laptop_is_gone_for_good(
    tpu_cloud: Cloud, ledger: Ledger, container: Any, tmp_path: Path
) -> None:
    launched(ledger, tmp_path)
    lose_the_laptop(ledger)
    assert len(tpu_cloud.inventory()) >= 2
    code, told, said = container()
    assert code == 0, said
    assert tpu_cloud.inventory() == []
    assert [(one["lease_id"], one["did"]) for one in told["findings"]] == [("run-e1", "released in part")]
    lease = stored(ledger)
    assert (lease.state, lease.owner, [ref.kind for ref in lease.resources]) == (
        State.RELEASING,
        None,
        ["directory"],
    )
    assert "directory in laptop" in lease.note
    assert [one.holders for one in ledger.listing().leases if is_lock(one)] == [()]
    code, told, said = container()
    assert (code, [one["did"] for one in told["findings"]]) == (0, ["not reachable"]), said


def test_the_laptop_comes_back_and_ends_it(
    tpu_cloud: Cloud, ledger: Ledger, container: Any, tmp_path: Path
) -> None:
    holding = launched(ledger, tmp_path)
    lose_the_laptop(ledger)
    assert container()[0] == 0
    lease = stored(ledger)
    here = tuple(replace(ref, scope=directories.reference(tmp_path).scope) for ref in lease.resources)
    ledger.write(replace(lease, resources=here))
    found = reap(ledger, holding.inventories, confirm_s=0.0)
    assert [one.did for one in found if one.lease_id == "run-e1"] == ["released"]
    assert not (tmp_path / "run").exists()


def test_a_run_that_renews_from_elsewhere_is_left_alone(
    tpu_cloud: Cloud,
    ledger: Ledger,
    container: Any,
    tmp_path: Path,
) -> None:
    launched(ledger, tmp_path)
    lease = stored(ledger)
    assert lease.owner is not None
    ledger.write(replace(lease, owner=replace(lease.owner, host="laptop")))
    before = tpu_cloud.inventory()
    code, told, said = container()
    assert (code, [one["did"] for one in told["findings"]]) == (0, ["kept"]), said
    assert set(before) <= set(tpu_cloud.inventory())


def test_a_dry_run_says_what_would_go(
    tpu_cloud: Cloud, ledger: Ledger, container: Any, tmp_path: Path
) -> None:
    launched(ledger, tmp_path)
    lose_the_laptop(ledger)
    before = tpu_cloud.inventory()
    code, told, said = container("--dry-run")
    assert (code, [one["did"] for one in told["findings"]]) == (0, ["would release"]), said
    assert set(before) <= set(tpu_cloud.inventory())


def test_a_lease_that_leaked_keeps_failing_the_job(ledger: Ledger, container: Any, tmp_path: Path) -> None:
    leak(ledger, tmp_path)
    for _ in range(2):
        code, told, said = container()
        assert (code, [one["did"] for one in told["findings"]]) == (ExitCode.LEAKED, ["leaked"]), said
        assert "room blue is still there" in said


def test_no_ledger_and_no_service(image: Path, ledger: Ledger, container: Any) -> None:
    code, _, said = container()
    assert (code, "nothing was ever held" in said) == (0, True)
    assert not ledger.exists(), "looking makes nothing"
    code, _, said = container("--ledger", "gs://no-such-bucket/ledger")
    assert (code, "gs://no-such-bucket" in said) == (ExitCode.INFRASTRUCTURE, True)
    assert container("--ledger", "s3://bucket/ledger")[0] == ExitCode.BAD_INPUT


@pytest.mark.parametrize("name", ["cronjob.yaml", "cloud-run-job.yaml"])
def test_what_is_deployed_calls_it_as_it_can_be_called(name: str) -> None:
    documents = list(yaml.safe_load_all((DEPLOYMENT / name).read_text()))
    job = documents[-1]
    template = (
        job["spec"]["jobTemplate"]["spec"]["template"]
        if job["kind"] == "CronJob"
        else job["spec"]["template"]
    )
    pod = template["spec"] if job["kind"] == "CronJob" else template["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert _parser().parse_args(container["args"]).ledger == "gs://BUCKET/ledger"
    assert "command" not in container, "the image's entry point is what is tested here"
    if job["kind"] == "CronJob":
        assert job["spec"]["concurrencyPolicy"] == "Forbid"
        assert documents[0]["metadata"]["name"] == pod["serviceAccountName"]


def test_the_image_starts_the_module_that_is_tested_here() -> None:
    text = (DEPLOYMENT / "Dockerfile").read_text()
    assert json.loads(text.split("ENTRYPOINT ")[1]) == ["python", "-m", "tasks.leases.reap_once"]


def test_the_scheduled_cloud_job_is_the_cronjobs_twin() -> None:
    """As far as it can be seen here: the fields are those of Cloud Run's Admin API v1, and both start the same."""
    *_, cron = yaml.safe_load_all((DEPLOYMENT / "cronjob.yaml").read_text())
    job = yaml.safe_load((DEPLOYMENT / "cloud-run-job.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("run.googleapis.com/v1", "Job")
    execution = job["spec"]["template"]["spec"]
    task = execution["template"]["spec"]
    assert set(execution) <= {"parallelism", "taskCount", "template"}
    assert set(task) <= {"containers", "maxRetries", "serviceAccountName", "timeoutSeconds", "volumes"}
    pods = cron["spec"]["jobTemplate"]["spec"]
    [ours], [theirs] = task["containers"], pods["template"]["spec"]["containers"]
    assert set(ours) <= {"args", "command", "env", "image", "name", "resources", "volumeMounts"}
    for field in ("args", "env", "image"):
        assert ours[field] == theirs[field]
    assert ours["resources"]["limits"]["memory"] == theirs["resources"]["limits"]["memory"]
    assert task["maxRetries"] == pods["backoffLimit"] == 0
    assert int(task["timeoutSeconds"]) == pods["activeDeadlineSeconds"]
