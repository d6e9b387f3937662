"""`slicebench env …` against the stand-in, as a user runs it: planned, made, changed, exported, given back."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.cli.env import desk as desk_of
from flows.cli.env import read
from flows.cli.main import main
from tasks.cloud import local_storage
from tasks.config.accelerators import accelerator
from tasks.config.environment import EnvironmentConfig
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.load import load_target
from tasks.config.locate import locate
from tasks.leases.claim import claim
from tasks.stages.environment import bootstrap
from tasks.stages.environment_desk import Desk
from tasks.targets.environment_wanted import namespaces
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import LEAST


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{LEAST}queueing: {{install: false}}\n")
    return str(path)


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


@pytest.mark.parametrize("word", ["plan", "up", "down"])
def test_what_is_interrupted_says_so_and_gives_one_object(
    project: Gke, file: str, word: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flows.cli.env.desk", interrupted)
    assert main(["env", word, file, "--json"]) == 130
    told = capsys.readouterr()
    assert json.loads(told.out) == {"error": "interrupted", "exit_code": 130}
    assert told.err.endswith("slicebench: interrupted\n")


def test_a_plan_says_what_is_missing_and_what_it_costs_and_makes_nothing(
    project: Gke, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project.set(apis_off=["aiplatform.googleapis.com"])
    assert main(["env", "plan", file, "--set", "tpu_pools=2"]) == 0
    told = capsys.readouterr().out
    for line in (
        "environment mine in proj",
        "  bootstrap: make bucket records for the record",
        "  turn on aiplatform",
        "  make network net",
        "  make pool tpu-node-pool-1",
        "TPUs: 32 chips in pools of 4 hosts, $38.40 an hour by list prices",
    ):
        assert line in told
    planned = as_json(capsys, "env", "plan", file)
    assert (planned["empty"], planned["bootstrap"], planned["price_per_hour"]) == (False, "records", 19.2)
    assert {one["do"] for one in planned["steps"]} == {"make"}
    assert project.mutations() == []


def test_a_region_without_the_machines_is_refused_before_anything_is_made(
    project: Gke, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = "tpu={machine_type: ct5p-hightpu-4t, topology: 2x2x2}"
    assert main(["env", "up", file, "--set", elsewhere]) == 2
    assert "us-east5-a" in capsys.readouterr().err
    assert project.mutations() == []


@pytest.mark.parametrize("word", ["plan", "up"])
def test_service_usage_must_be_on_before_and_is_said_to_be_off(
    word: str, project: Gke, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project.set(apis_off=["serviceusage.googleapis.com", "compute.googleapis.com"])
    assert main(["env", word, file]) == 3
    assert "gcloud services enable serviceusage.googleapis.com" in capsys.readouterr().err
    assert project.mutations() == [] and "buckets" not in project.project_inventory()


def test_what_you_may_not_do_is_told_with_the_plan(
    project: Gke, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project.set(forbidden=["compute.networks.create", "storage.buckets.create"])
    assert main(["env", "plan", file]) == 2
    told = capsys.readouterr().err
    assert main(["env", "up", file]) == 2
    assert told.splitlines()[-1] in capsys.readouterr().err
    assert project.mutations() == []
    assert "you may not do all that is needed: compute.networks.create, storage.buckets.create" in told
    assert "grant roles/compute.networkAdmin, roles/storage.admin: docs/environment.md says why" in told


def test_all_of_it_is_shown_field_by_field_and_exported_without_asking_anybody(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["env", "plan", file, "--offline", "--project", "proj"]) == 0
    told = capsys.readouterr().out
    assert '      ipCidrRange: "10.129.0.0/20"' in told
    assert "who makes it needs roles/serviceusage.serviceUsageAdmin" in told
    to = tmp_path / "main.tf.json"
    inside = ["--set", "queueing.install=true"]
    assert main(["env", "export", file, "--to", str(to), "--project", "proj", *inside]) == 0
    assert json.loads(to.read_text())["resource"]["google_compute_network"]["net"]["name"] == "net"
    assert (
        "not in it: queue multislice-queue is inside the cluster, where `env up` puts it\n"
        in capsys.readouterr().err
    )


def test_what_cannot_be_written_ends_it_in_one_line(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    words, to = ["env", "export", file, "--project", "proj", "--to"], tmp_path / "main.tf.json"
    to.write_text("precious")
    assert main([*words, str(to)]) == 2, "nothing is written over unasked"
    monkeypatch.setattr(local_storage, "sync", full)
    assert (main([*words, str(to), "--force"]), main([*words, str(tmp_path / "no" / "x")])) == (3, 2)
    told = capsys.readouterr().err
    assert f"slicebench: {to}: No space left on device" in told and f"{to} is there already" in told
    assert "there is no such folder" in told and to.read_text() == "precious"


def test_a_quota_that_is_too_small_is_told_with_the_plan(
    project: Gke, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project.set(quotas={"CPUS/us-east5": 4})
    assert main(["env", "plan", file]) == 2
    told = capsys.readouterr().err
    assert "3 machines of n1-standard-4 have 12 CPUs, and of the quota CPUS in us-east5 4 are left" in told
    assert main(["env", "up", file]) == 3
    assert "stay, are recorded" not in capsys.readouterr().err
    assert project.inventory() == []


def test_how_long_to_wait_must_be_a_time(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "up", file, "--wait", "soon"]) == 2
    assert "--wait soon: 'soon' is no time" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["team-slice", "team-two-slices", "team-tensorboard"])
def test_workloads_of_the_full_example_fit_its_machines_queues_and_accounts(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And success is the slices' alone, whatever else runs beside them."""
    whole, target = read("team", ()), load_target(locate(name, "targets"))
    assert isinstance(target, GkeTargetConfig) and target.cluster is not None
    assert (target.cluster.name, target.cluster.location) == (whole.cluster.name, whole.region)
    assert target.service_account == whole.accounts.workloads.kubernetes
    assert target.namespace in namespaces(whole)
    shape = accelerator(target.type, target.topology)
    assert (shape.machine_type, shape.topology) == (whole.tpu.machine_type, whole.tpu.topology)
    [team] = [one for one in whole.teams if (one.namespace or one.name) == target.namespace]
    assert target.slices <= (team.slices or 0) + (team.borrow or 0) <= whole.tpu_pools
    image = f"us-docker.pkg.dev/p/i@sha256:{'0' * 64}"
    words = ["--target", name, "--image", image, "--project", "proj", "--dry-run", "--", "python", "train.py"]
    assert main(["workload", "create", "mine", *words]) == 0
    made = next(one for one in yaml.safe_load_all(capsys.readouterr().out) if one and one["kind"] == "JobSet")
    jobs = [one["name"] for one in made["spec"]["replicatedJobs"]]
    counted = made["spec"].get("successPolicy", {}).get("targetReplicatedJobs", jobs)
    beside = {"tensorboard"} if name == "team-tensorboard" else set()
    assert (counted, set(jobs) - set(counted)) == (["slice-job"], beside)


@pytest.mark.parametrize("words", [["up", "--set", "tpu_pools=2"], ["down"]])
def test_an_interrupt_says_what_stays_and_what_goes_on(
    words: list[str],
    project: Gke,
    file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def halfway(desk: Desk, config: EnvironmentConfig, **more: Any) -> None:
        holding = claim(desk.ledger, desk.inventories, "environment-mine_proj", None)
        holding.create("gce_network", "proj", "net", lambda: "5")
        raise KeyboardInterrupt

    for word in ("up", "down"):
        monkeypatch.setattr(f"tasks.stages.environment.{word}", halfway)
    main(["env", "plan", file])
    bootstrap(desk_of(read(file, ()), None), read(file, ()))
    capsys.readouterr()
    assert main(["env", *words[:1], file, *words[1:]]) == 130
    more = " --set tpu_pools=2" if len(words) > 1 else ""
    stays = "1 thing of environment mine (gce_network net) stays, is recorded, and may cost"
    told = f"{stays}: `slicebench env up {file}{more}` goes on, `slicebench env down {file}{more}` ends it"
    assert told in capsys.readouterr().err


@pytest.mark.system
def test_made_found_as_it_is_without_tpus_and_given_back(
    project: Gke, file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its record in a bucket, which is made for it, and stays."""
    before = project.project_inventory()
    assert main(["env", "up", file]) == 0
    told = capsys.readouterr().err
    again = as_json(capsys, "env", "up", file)
    assert (again["made"], again["changed"]) == ([], [])
    assert f"  see metrics: {again['links']['metrics']}" in told and "tensorboard" in again["links"]
    assert ("gce_network", "net", True) in {
        (one["kind"], one["name"], one["ours"]) for one in again["resources"]
    }
    assert "bootstrap: make bucket records for the record, which stays when the environment goes" in told
    assert f"give it back with: slicebench env down {file}" in told
    assert as_json(capsys, "env", "plan", file)["empty"]
    assert main(["env", "up", file, "--set", "tpu_pools=0"]) == 0
    assert f"environment mine is as {file} says with tpu_pools=0; give it back" in capsys.readouterr().err
    assert sorted(project.pools("mine")) == ["cpu"]
    monkeypatch.setenv("SLICEBENCH_LEDGER", "gs://records/environments")
    assert main(["leases"]) == 0
    assert "environment-mine_proj-e1  live  no owner" in capsys.readouterr().out
    monkeypatch.delenv("SLICEBENCH_LEDGER")
    assert main(["env", "down", file]) == 0
    told = capsys.readouterr().err
    assert "bucket artifacts stays: --bucket gives it back as well" in told
    assert "nothing is left but bucket artifacts\n" in told
    again = as_json(capsys, "env", "down", file)
    assert (again["deleted"], again["stays"]) == (0, ["bucket artifacts"])
    assert main(["env", "down", file, "--bucket"]) == 0
    assert "nothing is left" in capsys.readouterr().err
    assert project.inventory() == []
    assert project.project_inventory() == {**before, "buckets": ["records"]}
    assert main(["env", "down", file]) == 0
    assert "environment mine is gone: nothing is left" in capsys.readouterr().err
