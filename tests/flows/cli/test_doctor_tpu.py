"""`slicebench doctor --target` of a TPU, against the stand-in: what is wrong, each with the command that fixes it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import NodeRequest, QueuedRequest
from tasks.cloud.tpu_transport import ENDPOINT_VARIABLE
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.targets.tpu_preflight import preflight
from tasks.targets.types import Plan
from tests.cloud import gcloud
from tests.cloud.tpu.leasing import QUICK, ZONE
from tests.cloud.tpu.running import Cloud
from tests.waiting import until

Findings = dict[tuple[str, str], str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    for name in ("SLICEBENCH_LEDGER", "PREFECT_API_URL", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def examined(home: Path, capsys: pytest.CaptureFixture[str], **fields: Any) -> Findings:
    """Returns (check, status) → what and fix of what doctor finds of a target with these fields."""
    target = {"kind": "tpu_vm", "type": "v6e-4", "zones": [ZONE], "project": "proj", **fields}
    (home / "t.json").write_text(json.dumps(target))
    (home / "t.yaml").write_text((home / "t.json").read_text())
    capsys.readouterr()
    main(["doctor", "--target", str(home / "t.yaml"), "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    return {(one["check"], one["status"]): f"{one['what']} | {one['fix']}" for one in found}


def test_what_the_project_lacks_is_told_with_its_fix(
    home: Path, tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    zone = f"zone {ZONE}"
    assert (zone, "fine") in examined(home, capsys)
    assert "v6e-4" in examined(home, capsys, type="v6e-44")[zone, "wrong"].partition("|")[2]
    off = examined(home, capsys, project="other")[zone, "wrong"]
    assert off.endswith("| gcloud services enable tpu.googleapis.com --project=other")
    CloudTpu("proj", timing=QUICK).create_queued(
        ZONE, "dead", QueuedRequest(NodeRequest("v6e-4", "v2-alpha-tpuv6e", {}), "dead", 2)
    )
    with tpu_cloud.store.changing() as world:
        next(iter(world["queued"].values())).update(state="FAILED", due=None, error=[8, "no"])
    quota = examined(home, capsys)[zone, "warning"]
    assert "dead is FAILED and still holds quota" in quota and "queued-resources delete dead --force" in quota
    tpu_cloud.set(denied=["ListAcceleratorTypes"])
    denied = examined(home, capsys)[zone, "wrong"]
    assert denied.endswith("add-iam-policy-binding proj --member=user:YOU --role=roles/tpu.admin")


def test_a_tpu_that_is_used_and_not_made_is_looked_at_itself(
    home: Path, tpu_cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    tpu = CloudTpu("proj", timing=QUICK)
    tpu.create_node(ZONE, "mine", NodeRequest("v6e-4", "v2-alpha-tpuv6e", {}))
    until(lambda: tpu.node(ZONE, "mine").state == "READY")
    found = examined(home, capsys, existing="mine", zones=[])
    assert found["mine", "fine"].startswith("it is there, READY, and v6e-4")
    assert "zones all" in found["project and zone", "fine"]
    tpu_cloud.preempt("mine")
    assert "mine in us-east5-b is PREEMPTED" in examined(home, capsys, existing="mine")["mine", "wrong"]


def test_no_credentials(
    home: Path, tpu_cloud: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(ENDPOINT_VARIABLE)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(home / "none.json"))
    found = examined(home, capsys)
    assert found["credentials", "wrong"].endswith("| gcloud auth application-default login")
    assert found[f"zone {ZONE}", "wrong"].endswith("| gcloud auth application-default login")


def test_tunnels_without_a_login(
    home: Path, tpu_cloud: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = gcloud.install(home / "bin", {}, account="")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert examined(home, capsys, addresses="iap")["iap", "wrong"].endswith("| gcloud auth login")


def test_a_run_is_refused_in_the_same_words(tpu_cloud: Cloud) -> None:
    config = TpuVmTargetConfig.model_validate(
        {"kind": "tpu_vm", "type": "v6e-4", "zones": [ZONE, "us-east5-a"]}
    )
    plan = Plan("t", [], 1, 1, 4, "tpu")
    assert preflight(CloudTpu("proj", timing=QUICK), config, plan) == []
    told = preflight(CloudTpu("other", timing=QUICK), config, plan)
    assert [one.severity for one in told] == ["error", "error"]
    assert told[0].fix == "gcloud services enable tpu.googleapis.com --project=other"
    assert tpu_cloud.mutations() == []


def make_standing(tpu: CloudTpu) -> None:
    """Makes a node and a queued resource, in all states that a run may find them in."""
    plain = NodeRequest("v6e-4", "v2-alpha-tpuv6e", {})
    tpu.create_node(ZONE, "ready", plain)
    tpu.create_node(ZONE, "os-login", replace(plain, metadata={"enable-oslogin": "TRUE"}))
    tpu.create_node(ZONE, "small", replace(plain, type="v6e-1"))
    tpu.create_node(ZONE, "gone", plain)
    tpu.create_queued(ZONE, "q", QueuedRequest(plain, "q", 2))
    until(lambda: len([node for node in tpu.nodes(ZONE) if node.state == "READY"]) == 6)


def test_what_exists_is_looked_at_before_a_run_takes_it(tpu_cloud: Cloud) -> None:
    tpu = CloudTpu("proj", timing=QUICK)
    make_standing(tpu)
    tpu_cloud.preempt("gone")

    def told(name: str, project: str = "proj", **more: Any) -> str:
        fields = {"kind": "tpu_vm", "type": "v6e-4", "zones": [ZONE], "existing": name, **more}
        config = TpuVmTargetConfig.model_validate(fields)
        found = preflight(CloudTpu(project, timing=QUICK), config, Plan("t", [], 1, 1, 4, "tpu"))
        return "; ".join(f"{one.severity}: {one}" for one in found)

    assert (told("ready"), told("q", slices=2, zones=[])) == ("", "")
    assert told("q").startswith("error: q is 2 x v6e-4, and the target says 1 x v6e-4")
    assert told("small").startswith("error: small is 1 x v6e-1, and the target says 1 x v6e-4")
    assert "error: TPU VM os-login in us-east5-b has OS Login on" in told("os-login")
    assert told("gone").startswith("error: gone in us-east5-b is PREEMPTED: nothing will run there any more")
    assert told("red").startswith("error: there is no TPU VM or queued resource 'red'")
    assert "gcloud services enable tpu.googleapis.com --project=other" in told("ready", "other")
    tpu_cloud.set(denied=["GetNode"])
    assert "error: " in told("ready") and "--role=roles/tpu.admin" in told("ready")
    tpu_cloud.set(denied=[])
    with tpu_cloud.store.changing() as world:
        world["nodes"][f"projects/proj/locations/{ZONE}/nodes/ready"]["state"] = "STARTING"
        world["queued"][f"projects/proj/locations/{ZONE}/queuedResources/q"].update(state="SUSPENDED")
    assert "ready is STARTING: the run waits for it" in told("ready")
    assert told("ready").startswith("warning: ")
    assert told("q", slices=2).startswith("error: q in us-east5-b is SUSPENDED")
