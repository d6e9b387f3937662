"""Slices that are taken away under a workload: noticed by asking the service, or by a host that falls silent."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import NodeRequest
from tasks.leases.lease import State
from tasks.stages.context import Run
from tasks.targets.tpu_wait import TakenAway
from tasks.targets.tpu_watch import Watch, taken_away
from tests.cloud.tpu.leasing import QUICK, ZONE, make_node, make_queued
from tests.cloud.tpu.running import Cloud
from tests.tasks.targets.local_runs import alive_under
from tests.tasks.targets.ssh_runs import wait_for_hosts
from tests.tasks.targets.tpu_runs import Bench, bench, hold, machines, play
from tests.waiting import PATIENCE_S, until


@pytest.fixture(autouse=True)
def no_survivors() -> Iterator[None]:
    """What ran on a machine that was taken away is gone with it; here the machine is this one."""
    yield
    for pid in alive_under("run-1-e1"):
        os.kill(pid, signal.SIGKILL)


def once_it_runs(bench: Bench, run: Run, do: Callable[[], None]) -> Run:
    """Returns the run with something that happens under its first attempt; the second one succeeds."""
    done: list[str] = []

    def say(line: str) -> None:
        bench.said.append(line)
        if "worker 0 of" in line and not done:
            done.append(line)
            run.spec.env["WORKLOAD"] = "succeed"  # type: ignore[index]
            do()

    return replace(run, say=say)


@pytest.mark.parametrize("slices", [1, 2])
def test_one_that_is_preempted_ends_the_attempt_though_its_hosts_still_answer(
    bench: Bench, slices: int
) -> None:
    run, holding = bench.run(bench.config(slices=slices), workload="hold"), hold()
    name = "sb-run-1-e1" if slices == 1 else "sb-run-1-e1-1"
    run = once_it_runs(bench, run, lambda: bench.cloud.preempt(name))
    assert play(run, holding) == [(1, "preempted"), (2, "succeeded")]
    cause = json.loads(run.folder.read("attempts.json") or b"")[0]["cause"]
    # The node is PREEMPTED a moment before its queued resource is SUSPENDED.
    assert re.search(rf"sb-run-1-e1(-1)? in {ZONE} is (PREEMPTED|SUSPEND)", cause), cause
    kind = "Node" if slices == 1 else "QueuedResource"
    assert [one["method"] for one in bench.cloud.mutations()] == [
        f"Create{kind}", f"Delete{kind}", f"Create{kind}",
    ], "the dead one held quota until it was deleted"  # fmt: skip
    assert holding.release("over").lease.state is State.GONE
    assert bench.cloud.inventory() == []


def test_slices_with_a_host_that_falls_silent_are_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.targets.ssh_fleet._LOST_MARGIN_S", 0.5)
    run, holding = bench.run(bench.config(slices=1), workload="hold", lease_s=3.0), hold()

    def freeze() -> None:
        bench.hosts[0].freeze()
        wait_for_hosts(bench.pool, 0.5, monkeypatch)

    run = once_it_runs(bench, run, freeze)
    say = run.say

    def thaw(line: str) -> None:
        say(line)
        if "attempt 1 was preempted" in line:  # what is made next is another machine
            bench.hosts[0].thaw()
            wait_for_hosts(bench.pool, PATIENCE_S, monkeypatch)

    try:
        assert play(replace(run, say=thaw), holding) == [(1, "preempted"), (2, "succeeded")]
    finally:
        bench.hosts[0].thaw()
    attempts = json.loads(run.folder.read("attempts.json") or b"")
    assert "a worker's host does not answer any more" in attempts[0]["cause"]
    assert any("giving back tpu_node sb-run-1-e1, which has a host that" in line for line in bench.said)
    assert holding.release("over").lease.state is State.GONE
    assert bench.cloud.inventory() == []


@pytest.mark.system  # a silent host is waited for, for most of a minute
def test_one_that_is_not_ours_ends_the_run_and_leaves_nothing_that_nobody_can_look_for(
    bench: Bench, tmp_path: Path
) -> None:
    tpu = CloudTpu("proj", timing=QUICK)
    tpu.create_node(ZONE, "mine", NodeRequest("v6e-1", "v2-alpha-tpuv6e", {}))
    config = bench.config(existing="mine", slices=1, zones=[])
    run, holding = bench.run(config, workload="hold", output=str(tmp_path / "out")), hold()

    def lose() -> None:
        bench.cloud.preempt("mine")
        bench.hosts[0].freeze()

    try:
        with pytest.raises(
            TakenAway, match="mine in us-east5-b is PREEMPTED.*it is not ours, and stays as it is"
        ):
            play(once_it_runs(bench, run, lose), holding)
        done = holding.release("over")
    finally:
        bench.hosts[0].thaw()
    assert (done.lease.state, done.problems) == (State.GONE, ())
    assert any("mine was taken away; it is not ours" in line for line in bench.said)
    assert [one["end"] for one in json.loads(run.folder.read("attempts.json") or b"")] == ["preempted"]
    assert [name.rsplit("/", 1)[1] for name in bench.cloud.inventory()] == ["mine"]


def test_the_attempts_end_at_the_limit(bench: Bench) -> None:
    run, holding = bench.run(bench.config(slices=1, limits={"attempts": 1}), workload="hold"), hold()
    run = once_it_runs(bench, run, lambda: bench.cloud.preempt("sb-run-1-e1"))
    assert play(run, holding) == [(1, "preempted")]
    assert holding.release("over").lease.state is State.GONE
    assert bench.cloud.inventory() == []


def test_what_counts_as_taken_away(tpu_cloud: Cloud) -> None:
    tpu, holding = CloudTpu("proj", timing=QUICK), hold()
    node, queued = make_node(holding, "n1"), make_queued(holding, "q1")
    until(lambda: tpu.queued_resource(ZONE, "q1").state == "ACTIVE")
    assert taken_away(tpu, [node, queued]) == ""
    with tpu_cloud.store.changing() as world:
        world["nodes"][f"projects/proj/locations/{ZONE}/nodes/n1"]["state"] = "REPAIRING"
    assert taken_away(tpu, [queued, node]) == f"TPU VM n1 in {ZONE} is REPAIRING"
    tpu_cloud.preempt("q1-1")
    assert "q1 in us-east5-b is SUSPEND" in taken_away(tpu, [queued])
    tpu_cloud.vanish("n1")
    assert f"n1 in {ZONE} is gone" in taken_away(tpu, [node])
    assert holding.release("over").lease.state is State.GONE


def test_an_api_that_does_not_answer_says_nothing(tpu_cloud: Cloud) -> None:
    holding = hold()
    node = make_node(holding, "n1")
    with Watch(CloudTpu("proj", timing=QUICK), [node], every_s=0.01) as watch:
        tpu_cloud.set(denied=["GetNode"])
        seen = len(tpu_cloud.requests("GetNode"))
        until(lambda: len(tpu_cloud.requests("GetNode")) > seen + 2)
        assert watch.reason() == ""
        tpu_cloud.set(denied=[])
        tpu_cloud.preempt("n1")
        until(lambda: "is PREEMPTED" in watch.reason())
    assert holding.release("over").lease.state is State.GONE
