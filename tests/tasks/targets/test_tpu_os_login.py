"""OS Login, under which keys in metadata count for nothing: off where we make a TPU, refused at once where it is on."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import NodeRequest
from tasks.leases.lease import State
from tasks.leases.tpu_entries import enter
from tests.cloud.tpu.leasing import QUICK, ZONE
from tests.cloud.tpu.running import Cloud
from tests.tasks.targets.tpu_runs import Bench, bench, hold, machines, play


def test_what_we_make_lets_our_key_in_though_the_project_has_os_login_on(bench: Bench) -> None:
    bench.cloud.set(os_login="TRUE")
    run, holding = bench.run(bench.config(slices=1)), hold()
    assert play(run, holding) == [(1, "succeeded")]
    [asked] = bench.cloud.requests("CreateNode")
    assert asked["request"]["node"]["metadata"]["enable-oslogin"] == "FALSE"
    assert holding.release("over").lease.state is State.GONE


@pytest.mark.parametrize("value", ["TRUE", "true", " Yes "])
def test_one_that_exists_and_has_os_login_on_is_refused_before_a_key_is_pushed(
    tpu_cloud: Cloud, value: str
) -> None:
    tpu, holding = CloudTpu("proj", timing=QUICK), hold()
    request = NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}, metadata={"enable-oslogin": value})
    node = tpu.create_node(ZONE, "mine", request)
    fix = f"gcloud compute tpus tpu-vm update mine --zone={ZONE} --project=proj --update-metadata=enable-oslogin=FALSE"
    with pytest.raises(BadInput, match=f"has OS Login on .*, {fix}$"):
        enter(tpu, holding, node, "me", "ssh-ed25519 AAAA me")
    assert (tpu_cloud.requests("UpdateNode"), holding.lease.resources) == ([], ())
    assert holding.release("over").lease.state is State.GONE


def test_a_run_on_one_with_os_login_on_does_not_wait_for_what_never_comes(
    bench: Bench, tmp_path: Path
) -> None:
    request = NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}, metadata={"enable-oslogin": "TRUE"})
    CloudTpu("proj", timing=QUICK).create_node(ZONE, "mine", request)
    run, holding = bench.run(bench.config(existing="mine", slices=1), output=str(tmp_path)), hold()
    with pytest.raises(BadInput, match="has OS Login on"):
        play(run, holding)
    assert holding.release("over").lease.state is State.GONE


def test_where_the_whole_project_has_it_on_that_is_named_once_waiting_was_in_vain(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.targets.tpu_hosts._LOGIN_S", 0.5)
    bench.cloud.set(os_login="TRUE")
    CloudTpu("proj", timing=QUICK).create_node(ZONE, "mine", NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}))
    run, holding = bench.run(bench.config(existing="mine", slices=1), output=str(tmp_path)), hold()
    with pytest.raises(InfrastructureError, match="did not take the key .* whole project has OS Login on"):
        play(run, holding)
    assert holding.release("over").lease.state is State.GONE
