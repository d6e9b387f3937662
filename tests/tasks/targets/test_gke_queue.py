"""Runs in pods that wait in a queue, are evicted for others, lose a node or a pod; each through a whole cluster."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import ExitCode, InfrastructureError
from runtime.contract.pod import start_file
from tasks.leases.holding import Holding
from tasks.stages.attempts import read_attempts
from tasks.stages.context import Run
from tasks.stages.teardown import teardown
from tasks.targets.gke_waiting import WaitedTooLong
from tasks.targets.types import Outcome
from tests.cloud.kubernetes.client import JOBSETS, PODS, Plain
from tests.cloud.kubernetes.manifests import jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets import gke_runs, left_runs
from tests.tasks.targets.gke_runs import RUN, STANDING, Pods, hold, play
from tests.waiting import until

QUEUES = (
    "priorityclasses.scheduling.k8s.io",
    *(f"{plural}.kueue.x-k8s.io" for plural in ("clusterqueues", "localqueues", "resourceflavors")),
)


def make_queue(api: Plain) -> None:
    """Makes a queue of two processors, in which others with a higher priority go first."""

    def make(kind: str, plural: str, name: str, **fields: Any) -> None:
        group = "scheduling.k8s.io/v1" if kind == "PriorityClass" else "kueue.x-k8s.io/v1beta2"
        place = "namespaces/default/" if kind == "LocalQueue" else ""
        body = {"apiVersion": group, "kind": kind, "metadata": {"name": name}, **fields}
        api.post(f"/apis/{group}/{place}{plural}", body)

    make("PriorityClass", "priorityclasses", "lowest", value=1)
    make("PriorityClass", "priorityclasses", "highest", value=1000)
    make("ResourceFlavor", "resourceflavors", "any", spec={})
    flavor = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": "2"}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Never"},
    }
    make("ClusterQueue", "clusterqueues", "all", spec=spec)
    make("LocalQueue", "localqueues", "queue", spec={"clusterQueue": "all"})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    folder = tmp_path_factory.mktemp("cluster")
    with gke_runs.cluster(
        folder, node_grace_s=0.5, evict_after_s=0.5, nodes=[{"pool": "cpu", "count": 4}]
    ) as started:
        make_queue(Plain(started.url))
        yield started


@pytest.fixture
def pods(cluster: KubernetesStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pods]:
    with gke_runs.at_work(cluster, tmp_path, monkeypatch, but=(*STANDING, *QUEUES)) as pods:
        yield pods


def made_to_run_again(pods: Pods, run: Run, words: str, then: Callable[[], object]) -> Run:
    """Returns a run whose second attempt does not hang as the first does; `then` is done when `words` are said."""
    healthy, done = pods.run().spec.suite_text, list[str]()

    def say(line: str) -> None:
        pods.said.append(line)
        if "attempt 2 of" in line:
            run.spec.__dict__["suite_text"] = healthy
        if words in line and not done:
            done.append(line)
            then()

    return replace(run, say=say)


def played(run: Run, holding: Holding) -> Outcome:
    try:
        return play(run, holding)
    finally:
        teardown(run, holding)


def urgent() -> dict[str, Any]:
    """Returns somebody else's JobSet that takes all of the queue."""
    container = {
        "name": "c",
        "image": "i:1",
        "command": ["sleep", "600"],
        "resources": {"limits": {"cpu": "1"}},
    }
    pod = {
        "restartPolicy": "Never", "priorityClassName": "highest", "containers": [container],
        "terminationGracePeriodSeconds": 0, "nodeSelector": {}, "tolerations": [],
    }  # fmt: skip
    made = jobset("urgent", queue="queue", slices=1, pod=pod)
    del made["metadata"]["annotations"]
    return made


def test_an_eviction_is_an_attempt_that_was_preempted_and_the_next_waits_its_turn(pods: Pods) -> None:
    api = Plain(pods.cluster.url)
    run = pods.run(do={"0.1": "hang"}, queue="queue", priority="lowest")
    run = made_to_run_again(pods, run, "stand-in of worker 1", lambda: api.post(JOBSETS, urgent()))
    first = run.say

    def say(line: str) -> None:
        first(line)
        if line.startswith("queued: ") and "place 1 of 1" in line:
            api.delete(f"{JOBSETS}/urgent")

    outcome = played(replace(run, say=say), hold(RUN))
    assert [one.end for one in outcome.attempts] == ["preempted", "succeeded"], "\n".join(pods.said)
    assert "Preempted" in outcome.attempts[0].cause
    for worker in (
        0,
        1,
    ):  # all of it: what an attempt measured that is preempted does not count, and may be lost
        again = (pods.folder / f"{RUN}/results/points-a2-w{worker:04d}.jsonl").read_text()
        assert again.count('"status": "passed"') == 2


def test_what_is_left_and_evicted_begins_again_as_an_attempt_of_its_own(pods: Pods) -> None:
    """Kueue starts it again under the same JobSet and Jobs: nothing there tells one start from the other."""
    api, more = Plain(pods.cluster.url), {"queue": "queue", "priority": "lowest"}
    left_runs.play(left_runs.left(pods, **more), resume=False)
    until((pods.folder / RUN / start_file(1)).exists)
    api.post(JOBSETS, urgent())
    until(lambda: any(name.startswith("urgent-") for name in api.names(PODS)))
    api.delete(f"{JOBSETS}/urgent")
    until((pods.folder / RUN / start_file(2)).exists)
    (pods.folder / "go").touch()
    run = left_runs.left(pods, **more)
    assert left_runs.play(run).code is ExitCode.DONE, "\n".join(pods.said)
    assert [(one.n, one.end) for one in read_attempts(run)] == [(1, "preempted"), (2, "succeeded")]


def test_a_node_that_goes_is_a_preemption(pods: Pods) -> None:
    api = Plain(pods.cluster.url)

    def lose() -> None:
        [pod] = [one for one in api.get(PODS)["items"] if "slice-job-0-1-" in one["metadata"]["name"]]
        lost.append(pod["spec"]["nodeName"])
        pods.cluster.tell("lose_node", name=lost[0])

    lost: list[str] = []
    run = pods.run(do={"0.1": "hang"})
    run = made_to_run_again(pods, run, "stand-in of worker 1", lose)
    first = run.say

    def say(line: str) -> None:
        if line.startswith("preempted: "):  # what takes a machine away takes its node away, and so its pods
            api.delete(f"/api/v1/nodes/{lost[0]}")
        first(line)

    outcome = played(replace(run, say=say), hold(RUN))
    assert [one.end for one in outcome.attempts] == ["preempted", "succeeded"], "\n".join(pods.said)


def test_a_container_that_is_killed_is_a_lost_attempt(pods: Pods) -> None:
    def kill() -> None:
        for pid in pods.cluster.processes():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"runtime.pod" in command:
                    os.kill(pid, signal.SIGKILL)

    run = pods.run(do={"0.1": "hang"})
    outcome = played(made_to_run_again(pods, run, "stand-in of worker 1", kill), hold(RUN))
    assert [one.end for one in outcome.attempts] == ["lost"], pods.said
    assert "exited with 137" in outcome.attempts[0].cause


def test_without_kueue_nothing_is_made(pods: Pods) -> None:
    pods.cluster.stop("kueue")
    holding = hold(RUN)
    try:
        with pytest.raises(InfrastructureError, match="webhook"):
            play(pods.run(queue="queue", priority="lowest"), holding)
    finally:
        pods.cluster.stop()
        teardown(pods.run(), holding)


def test_what_never_fits_is_refused_or_else_given_up_when_its_time_in_the_queue_is_over(pods: Pods) -> None:
    run = pods.run(queue="queue", priority="lowest", cpu="4", limits={"queue_s": 3})
    [told] = run.target.preflight(run.plan)
    assert told.severity == "error" and "the 2 pods of slice-job ask for 8 cpu" in told.what
    run = replace(run, spec=replace(run.spec, skip_preflight=True))
    with pytest.raises(WaitedTooLong, match=r"for its turn, limits\.queue_s is 3: .*> maximum capacity"):
        played(run, hold(RUN))
    assert any(line.startswith("queued: ") and "limits.queue_s" in line for line in pods.said), pods.said


def test_an_image_that_never_comes_ends_by_its_limit_and_not_by_the_time_in_the_queue(pods: Pods) -> None:
    pods.cluster.set(images=["another"])
    try:
        run = pods.run(queue="queue", priority="lowest", limits={"queue_s": 4, "provisioning_s": 6})
        with pytest.raises(
            WaitedTooLong, match=r"limits\.provisioning_s is 6: (ErrImagePull|ImagePullBackOff)"
        ):
            played(run, hold(RUN))
    finally:
        pods.cluster.set(images=["*"])
