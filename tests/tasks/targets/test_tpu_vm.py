"""Runs on TPU VMs of the stand-in, whose workers are real sshd: made, entered, used, taken away, given back."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput, InfrastructureError, Leaked
from runtime.contract.job import Deadlines
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.storage import open_folder
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import NodeRequest
from tasks.cloud.tpu_types import tpu_type
from tasks.config.home import hosts_folder, scratch_folder
from tasks.config.spec import RunSpec, SourceSpec
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.leases.inventory import Pace
from tasks.leases.lease import State
from tasks.leases.reaper import reap
from tasks.leases.tpu_entries import read
from tasks.leases.tpus import NODE, QUEUED, TpuNodeInventory
from tasks.stages.provision import provision
from tasks.stages.run import run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.tpu_vm import TpuVmTarget
from tasks.targets.types import Image
from tests.cloud.sshd import Sshd, serve_ssh
from tests.cloud.tpu.leasing import QUICK, ZONE, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud
from tests.tasks.targets.local_runs import alive_under, point
from tests.tasks.targets.ssh_runs import host_folder, python_of
from tests.tasks.targets.tpu_runs import Bench, bench, hold, inventories_of, machines, play


def test_two_slices_are_made_used_and_given_back(bench: Bench) -> None:
    run, holding = bench.run(bench.config()), hold()
    plan = run.target.plan(run.spec)
    assert (plan.workers, plan.slices, plan.devices_per_worker, plan.price_per_hour) == (2, 2, 1, 5.4)
    assert plan.machine == {"target": "tpu_vm", "type": "v6e-1", "region": ZONE.rpartition("-")[0]}
    assert play(run, holding) == [(1, "succeeded")]
    workers = json.loads(run.folder.read("stages/provision.json") or b"")["outputs"]["workers"]["items"]
    assert [(one["slice_index"], one["address"]) for one in workers] == [
        (0, bench.hosts[0].address),
        (1, bench.hosts[1].address),
    ]
    kinds = {ref.kind: ref.inside for ref in holding.lease.resources}
    container = next(ref for ref in holding.lease.resources if ref.kind == QUEUED)
    assert kinds["host_process"] == kinds["host_directory"] == container.key
    key = scratch_folder() / "run-1" / "id_ed25519"
    assert key.stat().st_mode & 0o777 == 0o600
    done = holding.release("over")
    assert (done.lease.state, done.problems) == (State.GONE, ())
    assert (bench.cloud.inventory(), key.exists()) == ([], False)


@pytest.mark.system
def test_slices_taken_away_are_replaced_and_the_workload_started_again(bench: Bench) -> None:
    run, holding = bench.run(bench.config(slices=1), workload="hold"), hold()

    def preempt(line: str) -> None:
        bench.said.append(line)
        if "worker 0 of 1" in line and not bench.cloud.requests("DeleteNode"):
            bench.cloud.preempt("sb-run-1-e1")
            bench.hosts[0].freeze()
            with bench.cloud.store.changing() as world:
                world["hosts"][0]["taken"] = "nobody gets it again"
            run.spec.env["WORKLOAD"] = "succeed"  # type: ignore[index]

    run = replace(run, say=preempt)
    try:
        assert play(run, holding) == [(1, "preempted"), (2, "succeeded")]
    finally:
        bench.hosts[0].thaw()
        for pid in alive_under("run-1-e1"):  # the machine it ran on is gone
            os.kill(pid, signal.SIGKILL)
    [first, second] = bench.cloud.requests("CreateNode")
    assert first["request"]["node"]["metadata"] == second["request"]["node"]["metadata"], (
        "one key for the lease"
    )
    assert any("attempt 1 was preempted" in line for line in bench.said), bench.said
    attempts = json.loads(run.folder.read("attempts.json") or b"")
    assert "is PREEMPTED" in attempts[0]["cause"]
    assert holding.release("over").lease.state is State.GONE
    assert bench.cloud.inventory() == []


def test_one_that_exists_is_entered_with_a_key_that_ends_and_stays(bench: Bench, tmp_path: Path) -> None:
    tpu = CloudTpu("proj", timing=QUICK)
    tpu.create_node(
        ZONE, "mine", NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}, metadata={"ssh-keys": "jan:k jan"})
    )
    config = bench.config(existing="mine", slices=1, zones=[])
    run, holding = bench.run(config, output=str(tmp_path / "out")), hold()
    assert run.target.plan(run.spec).locks == [("tpu proj", "mine")]
    assert play(run, holding) == [(1, "succeeded")]
    taken = tpu.node(ZONE, "mine").metadata
    entry, keys = read(taken), taken["ssh-keys"].splitlines()
    assert entry is not None
    assert (entry.lease, entry.ledger) == ("run-1-e1", holding.ledger.id)
    assert keys[0] == "jan:k jan"
    assert f'google-ssh {{"userName": "{bench.hosts[0].user}", "expireOn": "' in keys[1]
    done = holding.release("over")
    assert (done.lease.state, done.problems) == (State.GONE, ())
    assert [name.rsplit("/", 1)[1] for name in bench.cloud.inventory()] == ["mine"]
    assert not list((bench.folder / "home").glob("runs/*")), "what was put there is gone"
    assert dict(tpu.node(ZONE, "mine").metadata) == {"ssh-keys": "jan:k jan"}, "so are key and lock"


def test_one_that_exists_and_is_another_type_is_refused(bench: Bench) -> None:
    CloudTpu("proj", timing=QUICK).create_node(ZONE, "mine", NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}))
    run, holding = bench.run(bench.config(existing="mine", slices=1, type="v6e-4")), hold()
    with pytest.raises(BadInput, match="mine is 1 x v6e-1, and the target says 1 x v6e-4"):
        play(run, holding)
    assert holding.release("over").lease.state is State.GONE


def test_a_setup_script_runs_once_on_each_worker_for_each_content(bench: Bench, tmp_path: Path) -> None:
    script = tmp_path / "setup.sh"
    script.write_text(f'echo ran >> "{bench.folder}/ran-$(echo $SSH_CONNECTION | cut -d" " -f3)"\n')
    marks = Path(f"~{bench.hosts[0].user}/.slicebench/setup").expanduser()
    run, holding = bench.run(bench.config(setup=str(script))), hold()
    play(run, holding)
    run.forget_from("provision")
    provision(run, holding)
    # The hosts of this test share one home folder, so one of them waits for the other, and finds that it did it.
    assert sum(file.read_text().count("ran") for file in bench.folder.glob("ran-*")) == 1
    script.write_text("echo broken >&2; exit 3\n")
    with pytest.raises(InfrastructureError, match=r"setup.sh failed on .*exit code 3: broken"):
        provision(run, holding)
    assert holding.release("over").lease.state is State.GONE
    assert marks.is_dir()


def test_what_does_not_go_within_the_target_s_limit_has_leaked(bench: Bench) -> None:
    run, holding = bench.run(bench.config(slices=1, limits={"teardown_s": 1.5})), hold()
    slow = TpuNodeInventory(holding.ledger, pace=Pace(0.05, 900.0, remote=True), settle_s=0.1)
    holding.inventories = {**holding.inventories, NODE: slow}
    provision(run, holding)
    bench.cloud.set(hold=["DELETING"])
    begin = time.monotonic()
    with pytest.raises(Leaked, match="sb-run-1-e1"):
        teardown(run, holding)
    assert time.monotonic() - begin < 300, "not what such things may take at most"
    bench.cloud.set(hold=[])
    ledger = a_ledger()
    [found] = reap(ledger, inventories_of(ledger))
    assert (found.did, bench.cloud.inventory()) == ("released", [])


def test_what_the_zone_does_not_offer_is_told_before_anything_is_made(bench: Bench) -> None:
    run, holding = bench.run(bench.config(type="v5p-8", zones=["us-east5-b"])), hold()
    with pytest.raises(BadInput, match="v5p-8 is not offered in us-east5-b"):
        provision(run, holding)
    assert bench.cloud.mutations() == []
    with pytest.raises(BadInput, match="give --output gs://"):
        run.target.plan(replace(run.spec, output="/tmp/x"))
