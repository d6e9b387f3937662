"""What goes wrong under a run in pods, each through a whole cluster, with workers that are a stand-in without JAX."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode
from tasks.leases.holding import Holding
from tasks.stages.context import Run
from tasks.stages.run import exit_code_of
from tasks.stages.teardown import teardown
from tasks.targets.types import Outcome
from tests.cloud.kubernetes.client import JOBSETS, PODS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets import gke_runs
from tests.tasks.targets.gke_runs import RUN, STANDING, Pods, hold, play
from tests.tasks.targets.test_gke_queue import QUEUES, made_to_run_again, make_queue

pytestmark = pytest.mark.system

UP = "stand-in of worker 1"
"""What the second worker says once it runs."""

HANGS = {"0.1": "hang"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    with gke_runs.cluster(tmp_path_factory.mktemp("cluster"), nodes=[{"pool": "cpu", "count": 4}]) as started:
        make_queue(Plain(started.url))
        yield started


@pytest.fixture
def pods(cluster: KubernetesStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pods]:
    with gke_runs.at_work(cluster, tmp_path, monkeypatch, but=(*STANDING, *QUEUES)) as pods:
        yield pods


def once(run: Run, pods: Pods, words: str, then: Callable[[], object]) -> Run:
    """Returns a run of which, once these words are said, something is done, in a thread of its own."""
    done = threading.Event()

    def say(line: str) -> None:
        pods.said.append(line)
        if words in line and not done.is_set():
            done.set()
            threading.Thread(target=then).start()

    return replace(run, say=say)


def played(run: Run, holding: Holding) -> Outcome:
    try:
        return play(run, holding)
    finally:
        teardown(run, holding)


def ends(outcome: Outcome) -> list[str]:
    return [one.end for one in outcome.attempts]


def kill(pods: Pods) -> None:
    """Kills all containers' first processes."""
    assert pods.cluster is not None
    for pid in pods.cluster.processes():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"runtime.pod" in command:
                os.kill(pid, signal.SIGKILL)


def test_a_failure_is_started_again_and_counts_once(pods: Pods) -> None:
    run = pods.run(do={"1.1": "fail:leaf a differs"}, max_restarts=2, restart_on_user_code_failure=True)
    outcome = played(made_to_run_again(pods, run, "never said", lambda: None), hold(RUN))
    assert ends(outcome) == ["failed"] * 3, "\n".join(pods.said)
    assert sum("started again, " in line for line in pods.said) == 2
    for attempt in (1, 2, 3):  # each has its results to itself, the first point only the first
        told = (pods.folder / f"{RUN}/results/points-a{attempt}-w0001.jsonl").read_text()
        assert told.count('"status": "passed"') == (1 if attempt == 1 else 0)
        assert told.count('"status": "failed"') == 1


def test_a_code_that_is_not_named_is_final_and_a_signal_is_not(pods: Pods) -> None:
    run = pods.run(do={"1.1": "fail:leaf a differs"}, max_restarts=2, restart_exit_codes="3")
    assert ends(played(run, hold(RUN))) == ["failed"], "\n".join(pods.said)

    again = pods.run(f"{RUN}-k", do=HANGS, max_restarts=1)
    healthy = pods.run().spec.suite_text

    def say(line: str) -> None:
        pods.said.append(line)
        if "started again" in line:
            again.spec.__dict__["suite_text"] = healthy
        if UP in line and not any("started again" in one for one in pods.said):
            kill(pods)

    outcome = played(replace(again, say=say), hold(f"{RUN}-k"))
    assert ends(outcome) == ["lost", "succeeded"], "\n".join(pods.said)
    assert "exited with 137" in outcome.attempts[0].cause


def test_a_pod_that_somebody_deletes_is_a_lost_attempt_that_says_so(pods: Pods) -> None:
    assert pods.cluster is not None
    api = Plain(pods.cluster.url)

    def delete() -> None:
        pod = next(name for name in api.names(PODS) if "slice-job-0-1-" in name)
        api.delete(f"{PODS}/{pod}")

    outcome = played(once(pods.run(do=HANGS), pods, UP, delete), hold(RUN))
    assert ends(outcome) == ["lost"], "\n".join(pods.said)
    assert "was deleted while it ran" in outcome.attempts[0].cause


def test_kueue_may_go_down_under_a_workload_that_runs(pods: Pods) -> None:
    cluster = pods.cluster
    assert cluster is not None
    down = pods.folder / "down"

    def stop() -> None:
        cluster.stop("kueue")
        down.touch()

    run = once(pods.run(do={"1.1": f"until:{down}"}, queue="queue", priority="lowest"), pods, UP, stop)
    first = run.say

    def say(line: str) -> None:
        first(line)
        if "keeps its finalizer batch.kubernetes.io/job-tracking" in line:  # which no pod loses without Kueue
            cluster.stop()

    try:
        outcome = played(replace(run, say=say), hold(RUN))
    finally:
        cluster.stop()
    assert exit_code_of(outcome) == ExitCode.DONE, "\n".join(pods.said)
    assert any("see whether Kueue runs" in line for line in pods.said), pods.said


@pytest.mark.parametrize("ahead_s", [-7200, 7200])
def test_the_cluster_may_have_another_time(pods: Pods, ahead_s: int) -> None:
    assert pods.cluster is not None
    pods.cluster.tell("skew", seconds=ahead_s)
    try:
        limits = {"queue_s": 600, "provisioning_s": 600}
        outcome = played(pods.run(queue="queue", priority="lowest", limits=limits), hold(RUN))
        assert exit_code_of(outcome) == ExitCode.DONE, "\n".join(pods.said)
        late = pods.run(f"{RUN}-l", queue="queue", priority="lowest", cpu="4", limits={"queue_s": 2})
        late = replace(late, spec=replace(late.spec, skip_preflight=True))  # which would refuse it
        with pytest.raises(Exception, match=r"limits\.queue_s is 2: "):
            played(late, hold(f"{RUN}-l"))
    finally:
        pods.cluster.tell("skew", seconds=0)
    log = (pods.folder / f"{RUN}/logs/worker-0001.log").read_text()
    assert log.count(f"{UP} from point 0") == 1


def test_the_api_may_be_away_for_two_minutes(pods: Pods) -> None:
    cluster = pods.cluster
    assert cluster is not None
    went = threading.Event()

    def away() -> None:
        cluster.down()
        went.wait(120.0)
        cluster.up()

    run = pods.run(do={"0.1": "touch:" + str(pods.folder / "reached")})
    healed = made_to_run_again(pods, run, "never said", lambda: None)

    def end() -> None:
        away()
        kill(pods)  # what hangs would for ever: that is seen, and by then the cluster answers again

    outcome = played(replace(once(run, pods, UP, end), target=healed.target), hold(RUN))
    said = "\n".join(pods.said)
    assert ends(outcome) == ["lost"], said
    assert "unreachable: " in said and "reachable: the cluster answers again" in said
    assert "exited with 137" in outcome.attempts[0].cause
    log = (pods.folder / f"{RUN}/logs/worker-0001.log").read_text()
    assert log.count(f"{UP} from point 0") == 1
    assert Plain(cluster.url).names(JOBSETS) == []
