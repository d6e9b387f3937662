"""Pull the plug on whole runs in pods, at every mutating call that the cluster sees: the reaper leaves nothing."""

from __future__ import annotations

import itertools
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import ExitCode
from tasks.leases.lease import State, is_lock
from tasks.leases.reaper import reap
from tasks.stages.run import exit_code_of
from tasks.stages.teardown import teardown
from tasks.targets.gke_smoke import PROOFS
from tests.chaos.driver import outcome, sample, soon_enough, took_s
from tests.cloud.kubernetes.client import JOBS, JOBSETS, PODS, Plain
from tests.cloud.kubernetes.manifests import jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.runtime.supervised import ROOT
from tests.tasks.targets import gke_runs
from tests.tasks.targets.gke_runs import RUN, Pods, a_ledger, hold, inventories
from tests.tasks.targets.gke_runs import play as play_stages
from tests.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

OTHERS = ("foreign", "theirs")


@dataclass(frozen=True)
class Case:
    """A way to run, and the mutating calls on JobSets and Secrets of it; a dry run, which makes nothing, is one too."""

    calls: list[str]
    evicted: bool = False
    tried: bool = False


DRY, MAKE, HIDE, DELETE = "create jobsets", "create jobsets", "create secrets", "delete jobsets"
CASES = {
    "plain": Case([DRY, MAKE, HIDE, DELETE]),
    "tried": Case([DRY, MAKE, DELETE, MAKE, HIDE, DELETE], tried=True),
    "evicted": Case([DRY, MAKE, HIDE, DELETE, DRY, MAKE, HIDE, DELETE], evicted=True),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    packages = tmp_path_factory.mktemp("packages")
    for name in ("jax", "orbax/checkpoint"):  # what a pod that tries the image looks for
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text("__version__ = '0'\n")
    env = {"PYTHONPATH": f"{packages}:{ROOT}"}
    with gke_runs.cluster(tmp_path_factory.mktemp("cluster"), image_env=env) as started:
        yield started


def play(pods: Pods, case: Case, run_id: str) -> None:
    """Plays all stages; where the case says so a pod is evicted as soon as its worker speaks."""
    api = Plain(pods.cluster.url)
    run = pods.run(run_id, do={"0.1": "hang"} if case.evicted else {}, smoke=case.tried)
    shutil.rmtree(pods.folder / PROOFS, ignore_errors=True)

    def say(line: str) -> None:
        if "attempt 2 of" in line:
            run.spec.__dict__["suite_text"] = pods.run(run_id).spec.suite_text
        elif case.evicted and "stand-in of worker 1" in line and "hang" in run.spec.suite_text:
            pod = next(name for name in api.names(PODS) if name.startswith(f"sb-{run_id}-e1-slice-job-0-1-"))
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
            api.post(f"{PODS}/{pod}/eviction", body)

    run = replace(run, say=say)
    holding = hold(run_id)
    try:
        outcome = play_stages(run, holding)
        assert exit_code_of(outcome) == ExitCode.DONE, outcome
    finally:
        teardown(run, holding)


def sweep_up() -> None:
    """Reaps in a process of its own, as a forked one may not share its parent's connections."""
    ledger = a_ledger()
    findings = reap(ledger, inventories(ledger))
    assert [found.did for found in findings] == ["released"], findings


@pytest.mark.parametrize("name", CASES)
def test_killed_before_and_after_every_mutating_call(
    cluster: KubernetesStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    (tmp_path / "out").mkdir()
    pods, case, api = Pods(cluster, tmp_path / "out"), CASES[name], Plain(cluster.url)
    for other in OTHERS:
        api.post(JOBSETS, somebodys(other))
    until(lambda: len(api.names(JOBS)) == 2 * len(OTHERS))  # JobSet has made all of theirs
    standing = things(cluster)
    cluster.calls()
    assert outcome(lambda: play(pods, case, f"{RUN}-clean")) == 0
    assert mutations(cluster) == case.calls
    took = []
    moments = [
        (number, f"{action} {call}")
        for number, (call, action) in enumerate(itertools.product(case.calls, ("kill_before", "kill_after")))
    ]
    for number, told in sample(moments):
        nth, (action, _, call) = number // 2 + 1, told.partition(" ")
        at = (name, nth, call, action)
        run_id = f"{RUN}-{nth}-{action.replace('_', '-')}"
        verb, kind = call.split()
        cluster.fault(verb=verb, kind=kind, nth=case.calls[:nth].count(call), action=action)
        assert outcome(lambda run_id=run_id: play(pods, case, run_id)) == -signal.SIGKILL, at  # type: ignore[misc]
        cluster.fault()
        began = time.monotonic()
        assert outcome(sweep_up) == 0, at
        took.append(took_s(began))
        until(lambda: things(cluster) == standing)  # a Secret follows its JobSet
        leases = a_ledger().listing().leases
        assert all(lease.state is State.GONE for lease in leases if not is_lock(lease)), at
    for other in OTHERS:
        api.delete(f"{JOBSETS}/{other}")
    assert soon_enough(took), took


def somebodys(name: str) -> dict[str, Any]:
    """Returns a JobSet that slicebench did not make, or that another ledger's lease made; it never runs."""
    labels = {"slicebench-lease": "run-1-e1", "slicebench-ledger": "another"} if name == "theirs" else {}
    return jobset(name, labels=labels, suspend=True)


def things(cluster: KubernetesStandIn) -> dict[str, Any]:
    """Returns all that is there, but for what was only said."""
    told = cluster.inventory()
    objects = {kind: sorted(names) for kind, names in told["objects"].items() if kind != "events"}
    return {"objects": objects, "processes": told["processes"]}


def mutations(cluster: KubernetesStandIn) -> list[str]:
    """Returns the mutating calls on JobSets and Secrets since it was asked last."""
    calls = [call.split()[:2] for call in cluster.calls()]
    return asked_once(
        f"{verb} {kind}"
        for verb, kind in calls
        if verb in ("create", "delete") and kind in ("jobsets", "secrets")
    )


def asked_once(calls: Iterable[str]) -> list[str]:
    """Returns the calls without those that ask again for the same to go: on a slow machine it is asked by force."""
    told: list[str] = []
    for call in calls:
        if not call.startswith("delete ") or told[-1:] != [call]:
            told.append(call)
    return told
