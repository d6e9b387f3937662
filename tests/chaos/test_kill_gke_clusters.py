"""Pull the plug on whole runs on clusters of GKE by name, at every mutating call that GKE and the cluster see.

Where the run makes the cluster, and where it adds node pools to one that was there: the reaper leaves nothing of ours,
neither a cluster, a node pool nor a JobSet, and all that others made.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import ExitCode
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.leases.lease import State
from tasks.leases.reaper import reap
from tasks.stages.run import exit_code_of
from tasks.stages.teardown import teardown
from tests.chaos.driver import fork_and_play, outcome, sample, soon_enough, took_s
from tests.chaos.test_kill_gke import asked_once
from tests.cloud.container.leasing import a_ledger, quick_inventories
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets.gke_runs import RUN, Pods, images, play
from tests.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

MADE, POOL, UNMADE, UNPOOL = "CreateCluster", "CreateNodePool", "DeleteCluster", "DeleteNodePool"
DRY, MAKE, HIDE, DELETE = "create jobsets", "create jobsets", "create secrets", "delete jobsets"
QUEUE = ["patch resourceflavors", "patch clusterqueues", "patch localqueues"]
UNQUEUE = ["delete localqueues", "delete clusterqueues", "delete resourceflavors"]


@dataclass(frozen=True)
class Case:
    """A way to run: the mutating calls of it that GKE sees, and those that the cluster sees."""

    cluster: str
    gke: list[str]
    kubernetes: list[str]
    queue: str | None = None


CASES = {
    "made": Case("mine", [MADE, POOL, UNMADE], [DRY, MAKE, HIDE, DELETE]),
    "added to": Case("theirs", [POOL, UNPOOL], [DRY, DRY, MAKE, HIDE, DELETE]),
    "with a queue": Case(
        "theirs", [POOL, UNPOOL], [DRY, *QUEUE, DRY, MAKE, HIDE, DELETE, *UNQUEUE], "multislice-queue"
    ),
}


@pytest.fixture
def pods(gke: Gke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pods]:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gke.credentials()))
    (tmp_path / "out").mkdir()
    yield Pods(None, tmp_path / "out")


def claimed(run_id: str) -> Holding:
    ledger = a_ledger()
    return claim(ledger, quick_inventories(ledger), run_id, run_id)


def a_run(pods: Pods, case: Case, run_id: str, do: dict[str, str] | None = None) -> None:
    made = {"queueing": {"install": False}}  # it is there from the beginning
    place = {"name": case.cluster, "location": "us-east5-b", "make": made}
    run = pods.run(run_id, do=do, cluster=place, queue=case.queue)
    holding = claimed(run_id)
    try:
        outcome = play(run, holding)
        assert exit_code_of(outcome) == ExitCode.DONE, outcome
    finally:
        teardown(run, holding)


def sweep_up() -> None:
    ledger = a_ledger()
    findings = reap(ledger, quick_inventories(ledger))
    assert {found.did for found in findings} == {"released"}, findings


def others(gke: Gke, tmp_path: Path) -> tuple[list[str], KubernetesStandIn]:
    """Puts two clusters there that others made: one of another ledger's lease, one with a pool of another type."""
    gke.set(kubernetes=images(tmp_path))
    labels = {"slicebench-lease": "cluster-mine_proj-e1", "slicebench-ledger": "another"}
    foreign = gke.put("foreign", labels=labels)
    pool = {"name": "np-0", "initial_node_count": 1, "config": {"machine_type": "n2-standard-4"}}
    theirs = gke.put("theirs", location="us-east5-b", pools=[pool])
    for key in (foreign, theirs):
        until(lambda key=key: "kubernetes" in gke.store.read()["clusters"][key])  # type: ignore[misc]
    return sorted([foreign, theirs, f"{theirs}/nodePools/np-0"]), gke.kubernetes("theirs")


def things(cluster: KubernetesStandIn) -> dict[str, Any]:
    told = cluster.inventory()
    objects = {kind: sorted(names) for kind, names in told["objects"].items() if kind != "events"}
    return {"objects": objects, "processes": told["processes"]}


_OURS = ("jobsets", "secrets", "clusterqueues", "localqueues", "resourceflavors")


def seen(calls: list[str]) -> list[str]:
    """Returns the mutating calls on JobSets, Secrets and queues among those that a cluster saw."""
    pairs = [call.split()[:2] for call in calls]
    return asked_once(
        f"{verb} {kind}" for verb, kind in pairs if verb in ("create", "delete", "patch") and kind in _OURS
    )


def disarm(gke: Gke) -> None:
    """Takes all traps away."""
    gke.no_faults()
    trap(gke)
    gke.kubernetes("theirs").fault()


def trap(gke: Gke, **fault: Any) -> None:
    """Lets a fault wait in each cluster that is made from now on; without one none does."""
    there = gke.store.read()["settings"]["kubernetes"]
    gke.set(kubernetes={**there, "faults": [fault] if fault else []})


def arm(gke: Gke, case: Case, number: int) -> tuple[str, str]:
    """Sets the trap of a moment; returns the call and what befalls its caller."""
    nth, action = number // 2, ("kill_before", "kill_after")[number % 2]
    disarm(gke)
    if nth < len(case.gke):
        gke.fault("mutating", action, nth=nth + 1)
        return case.gke[nth], action
    nth -= len(case.gke)
    verb, kind = case.kubernetes[nth].split()
    fault: dict[str, Any] = {
        "verb": verb, "kind": kind, "action": action,
        "nth": case.kubernetes[: nth + 1].count(case.kubernetes[nth]),
    }  # fmt: skip
    if case.cluster == "mine":
        trap(gke, **fault)
    else:
        gke.kubernetes("theirs").fault(**fault)
    return case.kubernetes[nth], action


@pytest.mark.parametrize("name", CASES)
def test_killed_before_and_after_every_mutating_call(pods: Pods, gke: Gke, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    there, theirs = others(gke, tmp_path)
    standing = things(theirs)
    theirs.calls()
    assert outcome(lambda: a_run(pods, case, f"{RUN}-clean")) == 0
    assert [one["method"] for one in gke.mutations()] == case.gke
    if case.cluster == "mine":
        until(gke.ended)
    calls = theirs.calls() if case.cluster == "theirs" else gke.ended()[0]["calls"]
    assert seen(calls) == case.kubernetes
    took = []
    everything = [*case.gke, *case.kubernetes]
    for number, call in sample([(number, everything[number // 2]) for number in range(2 * len(everything))]):
        at = (name, call, *arm(gke, case, number))
        run_id = f"{RUN}-{number}"
        assert outcome(lambda run_id=run_id: a_run(pods, case, run_id)) == -signal.SIGKILL, at  # type: ignore[misc]
        disarm(gke)
        began = time.monotonic()
        assert outcome(sweep_up) == 0, at
        took.append(took_s(began))
        assert gke.inventory() == there, at
        until(lambda: things(theirs) == standing)
        leases = a_ledger().listing().leases
        assert all(lease.state is State.GONE for lease in leases), at
    until(lambda: len(gke.behind()) == 2)
    assert soon_enough(took), took


def test_a_run_that_was_killed_goes_on_with_its_cluster_and_workload(
    pods: Pods, gke: Gke, tmp_path: Path
) -> None:
    """Killed while the cluster was being made, and when its JobSet was there: neither is made twice."""
    others(gke, tmp_path)
    case = CASES["made"]
    for nth, number in enumerate((3, 9)):  # after CreateNodePool, and after the Secret was made
        gke.forget()
        at = arm(gke, case, number)
        assert outcome(lambda nth=nth: a_run(pods, case, f"{RUN}-again-{nth}")) == -signal.SIGKILL, at  # type: ignore[misc]
        disarm(gke)
        assert outcome(lambda nth=nth: a_run(pods, case, f"{RUN}-again-{nth}")) == 0, at  # type: ignore[misc]
        assert [one["method"] for one in gke.mutations()] == case.gke, at
        assert gke.behind() == ["foreign", "theirs"]
        until(lambda nth=nth: len(gke.ended()) == nth + 1)  # type: ignore[misc]
        assert seen(gke.ended()[nth]["calls"]).count("create secrets") == 1, at
    assert all(lease.state is State.GONE for lease in a_ledger().listing().leases)


@pytest.mark.parametrize("first_ends", ["by itself", "killed"])
def test_two_runs_share_the_cluster_that_one_of_them_made(
    pods: Pods, gke: Gke, tmp_path: Path, first_ends: str
) -> None:
    there, theirs = others(gke, tmp_path)
    standing = things(theirs)
    case = CASES["made"]
    if first_ends == "killed":
        trap(gke, verb="delete", kind="jobsets", action="kill_before", nth=1)
    go = tmp_path / "go"
    first = fork_and_play(lambda: a_run(pods, case, f"{RUN}-first", {"0.1": f"until:{go}"}))
    until(lambda: any(one["method"] == POOL for one in gke.mutations()))
    second = fork_and_play(lambda: a_run(pods, case, f"{RUN}-second"))
    until(lambda: any(len(one.holders) == 2 for one in a_ledger().listing().leases))
    go.touch()
    ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (first, second)]
    if first_ends == "by itself":
        assert ends == [0, 0]
    else:  # whose JobSet was to be deleted first
        assert sorted(ends) == [-signal.SIGKILL, 0]
        assert outcome(sweep_up) == 0
    assert [one["method"] for one in gke.mutations()] == case.gke
    assert gke.inventory() == there
    until(lambda: things(theirs) == standing)
    assert all(lease.state is State.GONE for lease in a_ledger().listing().leases)
