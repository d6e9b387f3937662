"""Runs in pods of a stand-in cluster: followed to their end, through preemption and bad luck, and nothing is left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput, ExitCode
from tasks.config.gke_target import GkeTargetConfig
from tasks.leases.lease import State
from tasks.stages.attempts import read_attempts
from tasks.stages.collect import collect
from tasks.stages.doctor_targets import look_at_cluster
from tasks.stages.provision import provision
from tasks.stages.run import exit_code_of
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.gke import GkeTarget
from tasks.targets.types import Exited
from tests.cloud.kubernetes.client import JOBSETS, PODS, Plain
from tests.cloud.kubernetes.manifests import jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets import gke_runs
from tests.tasks.targets.gke_runs import RUN, Pods, hold, play
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    with gke_runs.cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def pods(cluster: KubernetesStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pods]:
    with gke_runs.at_work(cluster, tmp_path, monkeypatch) as pods:
        yield pods


def test_a_run_goes_through_and_leaves_nothing(pods: Pods) -> None:
    run, holding = pods.run(), hold(RUN)
    try:
        outcome = play(run, holding)
    finally:
        release = teardown(run, holding)
    assert exit_code_of(outcome) == ExitCode.DONE
    assert release.lease.state is State.GONE
    for worker in (0, 1):
        log = (pods.folder / f"{RUN}/logs/worker-{worker:04d}.log").read_text().splitlines()
        assert log.count(f"stand-in of worker {worker} from point 0") == 1
        assert (pods.folder / f"{RUN}/results/points-a1-w{worker:04d}.jsonl").exists()
    assert any(line.startswith("running: Started") for line in pods.said), pods.said
    assert pods.cluster is not None
    pods.cluster.calls()
    assert collect(run).passed == 2, "its pods are gone"
    assert pods.cluster.calls() == [], "and nobody asks for them"


def test_a_benchmark_that_fails_is_a_failed_workload(pods: Pods) -> None:
    run, holding = pods.run(do={"1.0": "fail:leaf a/b differs"}), hold(RUN)
    try:
        outcome = play(run, holding)
    finally:
        teardown(run, holding)
    assert [(one.n, one.end) for one in outcome.attempts] == [(1, "failed")]
    assert "leaf a/b differs" in outcome.attempts[0].cause


class Ears:
    """Hears what is said; once certain words are, something is done, in a thread of its own."""

    def __init__(self, words: str, then: Callable[[], object]) -> None:
        self.said: list[str] = []
        self._words, self._then = words, then
        self._done = False

    def __call__(self, line: str) -> None:
        self.said.append(line)
        if self._words in line and not self._done:
            self._done = True
            threading.Thread(target=self._then).start()


def test_a_jobset_that_somebody_deletes_is_a_lost_attempt(pods: Pods) -> None:
    api = Plain(pods.cluster.url)
    ears = Ears("stand-in of worker 1", lambda: api.delete(f"{JOBSETS}/sb-{RUN}-e1"))
    run, holding = pods.run(do={"0.1": "hang"}, say=ears), hold(RUN)
    try:
        outcome = play(run, holding)
    finally:
        teardown(run, holding)
    assert [one.end for one in outcome.attempts] == ["lost"], ears.said
    assert "its JobSet was deleted before it ended" in outcome.attempts[0].cause


def test_a_pod_that_is_evicted_makes_another_attempt_of_what_is_missing(pods: Pods) -> None:
    api = Plain(pods.cluster.url)

    def drain() -> None:
        pod = next(name for name in api.names(PODS) if "slice-job-0-1-" in name)
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        api.post(f"{PODS}/{pod}/eviction", body)

    ears = Ears("stand-in of worker 1", drain)
    run, holding = pods.run(do={"0.1": "hang"}, say=ears), hold(RUN)
    healthy = pods.run(say=ears)

    def heal(line: str) -> None:
        ears(line)
        if "attempt 2 of" in line:
            run.spec.__dict__["suite_text"] = healthy.spec.suite_text

    run = replace(run, say=heal)
    try:
        outcome = play(run, holding)
    finally:
        teardown(run, holding)
    assert [one.end for one in outcome.attempts] == ["preempted", "succeeded"], ears.said
    assert "Eviction" in outcome.attempts[0].cause
    assert (pods.folder / f"{RUN}/results/points-a2-w0000.jsonl").exists()


def test_the_api_may_be_away_for_a_while(pods: Pods) -> None:
    ears = Ears("unreachable: ", pods.cluster.up)
    begun: list[str] = []

    def say(line: str) -> None:
        if line.startswith(("starting: ", "running: ")) and not begun:
            begun.append(line)
            pods.cluster.down()
        ears(line)

    run, holding = pods.run(say=say), hold(RUN)
    try:
        outcome = play(run, holding)
    finally:
        teardown(run, holding)
    assert exit_code_of(outcome) == ExitCode.DONE, ears.said
    assert any("unreachable: " in line for line in ears.said)
    log = (pods.folder / f"{RUN}/logs/worker-0001.log").read_text().splitlines()
    assert log.count("stand-in of worker 1 from point 0") == 1


def test_what_is_missing_is_told_before_anything_is_made(pods: Pods) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"queue": "no-queue"}, "no-queue"),
        ({"priority": "no-class"}, "has no priority class no-class"),
        ({"namespace": "no-space"}, "has no namespace no-space"),
        ({"context": "other"}, "other"),
    ]
    for more, what in cases:
        run, holding = pods.run(**more), hold(RUN)
        with pytest.raises(BadInput, match=what):
            play(run, holding)
        teardown(run, holding)


def test_doctor_looks_a_cluster_over(pods: Pods) -> None:
    fine = pods.run().spec.target
    wrong = pods.run(priority="no-class").spec.target
    assert isinstance(fine, GkeTargetConfig)
    assert isinstance(wrong, GkeTargetConfig)
    [finding] = look_at_cluster(fine)
    assert finding.status == "fine", finding
    [finding] = look_at_cluster(wrong)
    assert finding.status == "wrong"
    assert "has no priority class no-class" in finding.what


def test_pods_end_when_their_run_falls_silent(pods: Pods) -> None:
    run, holding = pods.run(do={"0.1": "hang"}, lease_s=2.0), hold(RUN)
    uploaded = upload(run, provision(run, holding), gke_runs.IMAGE)
    run.target.start(uploaded, 1, holding)
    api = Plain(pods.cluster.url)
    ended = api.ended(f"sb-{RUN}-e1")
    assert ended["status"]["terminalState"] == "Failed"
    teardown(run, holding)


def test_what_a_run_that_goes_on_has_submitted_is_nothing_against_it(pods: Pods) -> None:
    api, name = Plain(pods.cluster.url), f"sb-{RUN}-e1"
    target = pods.run().target
    assert isinstance(target, GkeTarget)
    labels = {"slicebench-lease": f"{RUN}-e1", "slicebench-ledger": "ours"}
    api.post(JOBSETS, jobset(name, labels=labels, suspend=True))
    assert [one for one in target.looked_over(name) if one.severity == "error"] == []
    api.delete(f"{JOBSETS}/{name}")
    api.eventually(JOBSETS, lambda told: not told["items"])
    api.post(JOBSETS, jobset(name, suspend=True))
    [problem] = target.looked_over(name)
    assert f"has a JobSet {name} already, and no run of slicebench made it" in problem.what
    api.delete(f"{JOBSETS}/{name}")


def test_a_run_that_is_interrupted_ends_at_once_with_what_its_workers_said(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tasks.stages.run.GRACE_S", PATIENCE_S
    )  # to say it takes long where others use the machine

    def interrupt(line: str) -> None:
        pods.said.append(line)
        if "stand-in of worker 1" in line:
            raise KeyboardInterrupt

    run, holding = pods.run(do={"0.1": "hang"}, say=interrupt), hold(RUN)
    with pytest.raises(KeyboardInterrupt):
        play(run, holding)
    teardown(run, holding)
    assert [one.end for one in read_attempts(run)] == ["interrupted"]
    assert any("worker 1 ended with code 130" in line for line in pods.said), pods.said


def test_a_jobset_that_went_while_nobody_followed_is_a_lost_attempt(pods: Pods) -> None:
    run, holding = pods.run(do={"0.1": "hang"}), hold(RUN)
    ref = run.target.start(upload(run, provision(run, holding), gke_runs.IMAGE), 1, holding)
    api = Plain(pods.cluster.url)
    api.delete(f"{JOBSETS}/{ref.name}")
    api.eventually(PODS, lambda told: not told["items"])
    events = list(run.target.follow(ref, {}))
    teardown(run, holding)
    ends = [one for one in events if isinstance(one, Exited)]
    assert [one.worker for one in ends] == [0, 1]
    assert all("JobSet is gone" in one.cause for one in ends), ends
