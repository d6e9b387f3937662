"""Pull the plug on runs in pods that are left to themselves: at the hand-over, and on who comes back for one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode
from tasks.leases.holding import Holding
from tasks.leases.lease import State
from tasks.stages.attempts import read_attempts
from tests.chaos.driver import outcome
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets import gke_runs
from tests.tasks.targets.gke_runs import Pods
from tests.tasks.targets.left_runs import left, play, reaped, the_lease

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    with gke_runs.cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def pods(cluster: KubernetesStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pods]:
    with gke_runs.at_work(cluster, tmp_path, monkeypatch) as pods:
        yield pods


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at_the_hand_over(pods: Pods, *, before: bool) -> None:
    """Starts a run that is left to itself in a process that is killed just before or just after it lets go of it."""
    hand_over: Callable[[Holding, float, str], None] = Holding.leave

    def leave(holding: Holding, until: float, note: str) -> None:
        if not before:
            hand_over(holding, until, note)
        die()

    def launch() -> None:
        Holding.leave = leave  # type: ignore[method-assign]
        play(left(pods), resume=False)

    assert outcome(launch) == -signal.SIGKILL


def reap_it(did: str) -> Callable[[], None]:
    def reap() -> None:  # in a process of its own, as a forked one may not share its parent's connections
        assert reaped().did == did

    return reap


def come_back_for_it(pods: Pods) -> None:
    (pods.folder / "go").touch()
    assert play(left(pods)).code is ExitCode.DONE


def test_killed_just_before_the_hand_over_the_workload_goes_at_once(pods: Pods) -> None:
    killed_at_the_hand_over(pods, before=True)
    assert outcome(reap_it("released")) == 0
    assert the_lease().state is State.GONE


def test_killed_just_before_the_hand_over_who_comes_back_first_has_it(pods: Pods) -> None:
    killed_at_the_hand_over(pods, before=True)
    assert outcome(lambda: come_back_for_it(pods)) == 0
    assert [(one.n, one.end) for one in read_attempts(left(pods))] == [(1, "succeeded")]
    assert the_lease().state is State.GONE


def test_killed_just_after_the_hand_over_it_goes_on_until_somebody_comes_back(pods: Pods) -> None:
    killed_at_the_hand_over(pods, before=False)
    assert outcome(reap_it("kept")) == 0
    assert outcome(lambda: come_back_for_it(pods)) == 0
    assert [(one.n, one.end) for one in read_attempts(left(pods))] == [(1, "succeeded")]
    assert the_lease().state is State.GONE


def test_who_comes_back_and_is_killed_leaves_it_as_it_was(pods: Pods) -> None:
    def look_on() -> None:
        play(left(pods, say=lambda line: die() if "stand-in of worker 1" in line else None))

    assert outcome(lambda: play(left(pods), resume=False)) == 0
    until = the_lease().expires_at
    assert outcome(look_on) == -signal.SIGKILL
    assert outcome(reap_it("put back")) == 0
    assert (the_lease().owner, the_lease().expires_at) == (None, until)
    assert outcome(lambda: come_back_for_it(pods)) == 0
    assert [(one.n, one.end) for one in read_attempts(left(pods))] == [(1, "succeeded")]
