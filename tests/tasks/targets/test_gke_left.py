"""Runs in pods that are left to themselves: nobody follows them, the lease stays, and whoever comes back collects."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput, ExitCode, InfrastructureError
from runtime.contract.pod import start_file, stream_file
from runtime.contract.progress import Exited as Finished
from runtime.contract.progress import encode
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_places import ClusterGone
from tasks.cloud.storage import open_folder
from tasks.leases.keeping import claim_kept
from tasks.leases.lease import State
from tasks.stages.attempts import read_attempts
from tasks.stages.explain import explain
from tasks.stages.files import log_folder
from tasks.stages.leaving import STARTED_AGAIN
from tasks.stages.logs import has_ended
from tasks.stages.past import past_runs
from tasks.targets.gke import GkeTarget
from tasks.targets.streams import LOST
from tasks.targets.types import Exited, WorkloadRef
from tests.cloud.kubernetes.client import JOBSETS, PODS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets import gke_runs
from tests.tasks.targets.gke_runs import RUN, Pods, a_ledger, inventories
from tests.tasks.targets.left_runs import left, play, reaped, the_lease
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    with gke_runs.cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def pods(cluster: KubernetesStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pods]:
    with gke_runs.at_work(cluster, tmp_path, monkeypatch) as pods:
        yield pods


def test_a_run_that_does_not_wait_is_followed_and_collected_by_who_comes_back(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = left(pods)
    ending = play(run, resume=False)
    assert (ending.code, ending.left) == (ExitCode.DONE, True)
    assert not run.folder.read("outcome.json"), "it has not ended"
    assert has_ended(run.folder), "and says nothing more"
    lease = the_lease()
    assert (lease.state, lease.owner) == (State.LIVE, None)
    assert 600 <= (lease.expires_at or 0) - time.time() < 3600
    assert reaped().did == "kept"
    told = explain(run.folder, RUN, a_ledger())
    assert told.state == "left"
    assert any("slicebench workload explain" in command for command in told.next)
    [listed] = past_runs(open_folder(str(pods.folder)))
    assert (listed.state, listed.exit_code) == ("left running", None)
    with pytest.raises(BadInput, match="a workload was left to itself under it"):
        claim_kept(a_ledger(), inventories(a_ledger()), RUN, "another", lease.shape)

    def interrupt(line: str) -> None:
        if "stand-in of worker 1" in line:
            raise KeyboardInterrupt

    def silent(*about: object) -> None:
        raise InfrastructureError("the cluster does not answer")

    with pytest.raises(KeyboardInterrupt):
        play(left(pods, say=interrupt))
    blind = left(pods)
    monkeypatch.setattr(blind.target, "follow", silent)
    ending = play(blind)
    assert (ending.code, ending.left) == (ExitCode.INFRASTRUCTURE, True)
    assert the_lease().owner is None, "who looks on and leaves again leaves all as it was"
    assert the_lease().expires_at == lease.expires_at
    assert reaped().did == "kept"

    (pods.folder / "go").touch()
    again = left(pods)
    ending = play(again)
    assert (ending.code, ending.left) == (ExitCode.DONE, False)
    assert [(one.n, one.end) for one in read_attempts(again)] == [(1, "succeeded")]
    assert the_lease().state is State.GONE
    for worker in (0, 1):
        log = (pods.folder / f"{RUN}/logs/worker-{worker:04d}.log").read_text().splitlines()
        assert log.count(f"stand-in of worker {worker} from point 0") == 1


def test_what_nobody_came_back_for_goes_at_its_time_and_can_still_be_collected(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pods.folder / "go").touch()
    run = left(pods)
    play(run, resume=False)
    Plain(pods.cluster.url).ended(f"sb-{RUN}-e1")
    assert reaped().did == "kept", "what has ended holds nothing, and may be looked at"
    assert reaped(later_s=7200.0).did == "released"
    assert Plain(pods.cluster.url).names(JOBSETS) == []
    outcome = json.loads(run.folder.read("outcome.json") or b"")
    assert outcome["exit_code"] == ExitCode.INFRASTRUCTURE
    assert f"nobody came back for JobSet sb-{RUN}-e1" in outcome["causes"][0]
    assert f"slicebench run --resume {RUN}" in outcome["causes"][0]

    again = left(pods)
    monkeypatch.setattr(again.target, "acquire", None)  # no hardware is wanted any more
    assert play(again).code is ExitCode.DONE, pods.said
    assert [(one.n, one.end) for one in read_attempts(again)] == [(1, "succeeded")]
    log = (pods.folder / f"{RUN}/logs/worker-0001.log").read_text().splitlines()
    assert log.count("stand-in of worker 1 from point 0") == 1


def test_each_start_that_the_cluster_made_of_it_meanwhile_is_an_attempt(pods: Pods) -> None:
    play(left(pods), resume=False)
    api, folder = Plain(pods.cluster.url), pods.folder / RUN

    def evict(worker: int) -> None:
        [pod] = [name for name in api.names(PODS) if f"slice-job-0-{worker}-" in name]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        api.post(f"{PODS}/{pod}/eviction", body)

    for attempt in (1, 2):  # the worker that numbers them, and one that hears of it
        until((folder / start_file(attempt)).exists)
        evict(attempt - 1)
    until((folder / start_file(3)).exists)
    (pods.folder / "go").touch()
    run = left(pods)
    ending = play(run)
    assert ending.code is ExitCode.DONE, pods.said
    told = [(one.n, one.end, one.ref and one.ref.attempt) for one in read_attempts(run)]
    assert told == [(1, "preempted", 1), (2, "preempted", 2), (3, "succeeded", 3)]
    assert read_attempts(run)[0].cause == STARTED_AGAIN
    for worker in (0, 1):
        results = (folder / f"results/points-a3-w{worker:04d}.jsonl").read_text()
        assert results.count('"status": "passed"') == 2
        log = (folder / f"{log_folder(3)}/worker-{worker:04d}.log").read_text().splitlines()
        assert log.count(f"stand-in of worker {worker} from point 0") == 1
    assert the_lease().state is State.GONE


def test_what_has_ended_holds_up_nothing_else_that_was_made_for_it(pods: Pods) -> None:
    def interrupt(line: str) -> None:
        if "goes on by itself" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # too late: it is handed over
        play(left(pods, lock=True, say=interrupt), resume=False)
    assert reaped().did == "kept", "it goes on"
    (pods.folder / "go").touch()
    Plain(pods.cluster.url).ended(f"sb-{RUN}-e1")
    found = reaped()
    assert found.did == "released"
    assert found.why.startswith("its workload has ended, and nobody came back for it")


@pytest.mark.parametrize(("left_behind", "ends"), [((0, 1), [0, 0]), ((0,), [0, LOST])])
def test_of_a_cluster_that_is_gone_only_what_its_pods_left_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_behind: tuple[int, ...], ends: list[int]
) -> None:
    def gone(scope: str) -> Access:
        raise ClusterGone("cluster c of p is deleted")

    monkeypatch.setattr("tasks.targets.gke.access_to", gone)
    folder = open_folder(str(tmp_path))
    for worker in left_behind:
        said = encode(Finished(ExitCode.DONE, ""), seq=1, at=0.0)
        folder.write(stream_file(1, worker), f"{said}\n".encode())
    ref = WorkloadRef("gke", "cluster c of p in z/default", "sb-r-e1", "u", 1, (str(tmp_path),))
    told = list(GkeTarget(gke_runs.config()).follow(ref, {}))
    assert [(one.worker, one.code) for one in told if isinstance(one, Exited)] == list(enumerate(ends))
