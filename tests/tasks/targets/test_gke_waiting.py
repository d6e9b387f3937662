"""How long a workload that does not begin is waited for, by a clock that the test moves."""

from __future__ import annotations

import pytest

from tasks.config.gke_target import GkeLimits
from tasks.targets.gke_waiting import WaitedTooLong, Waiting
from tasks.targets.kube_found import NO_WORKLOAD, Found, KubeState

QUEUED = Found(KubeState.QUEUED, "WaitingForQuota", "insufficient unused quota")
PULLING = Found(KubeState.STARTING, "ImagePullBackOff", "not found")
HOMELESS = Found(KubeState.PROVISIONING, "Unschedulable", "0/3 nodes are available")
RUNNING = Found(KubeState.RUNNING, "Started")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def waiting(clock: Clock) -> Waiting:
    return Waiting("w", GkeLimits.model_validate({"queue_s": 100, "provisioning_s": 10}), clock)


def pass_in(waiting: Waiting, clock: Clock, found: Found | None, seconds: float) -> None:
    waiting.check(found)
    clock.now += seconds
    waiting.check(found)


def test_time_in_the_queue_and_time_for_pods_count_apart(waiting: Waiting, clock: Clock) -> None:
    pass_in(waiting, clock, QUEUED, 99.0)
    pass_in(waiting, clock, PULLING, 9.0)
    with pytest.raises(WaitedTooLong, match=r"limits\.provisioning_s is 10: Unschedulable: 0/3 nodes"):
        pass_in(waiting, clock, HOMELESS, 2.0)


def test_going_back_to_the_queue_does_not_begin_its_time_anew(waiting: Waiting, clock: Clock) -> None:
    pass_in(waiting, clock, QUEUED, 60.0)
    pass_in(waiting, clock, PULLING, 5.0)
    with pytest.raises(WaitedTooLong, match=r"waited 101 s for its turn, limits\.queue_s is 100"):
        pass_in(waiting, clock, QUEUED, 41.0)


def test_one_that_runs_has_all_the_time_it_likes(waiting: Waiting, clock: Clock) -> None:
    pass_in(waiting, clock, RUNNING, 10_000.0)
    assert waiting.told(RUNNING, 0.0) == ""


def test_one_of_which_the_cluster_says_nothing_is_given_up_too(waiting: Waiting, clock: Clock) -> None:
    with pytest.raises(WaitedTooLong, match="the cluster says nothing of it"):
        pass_in(waiting, clock, None, 101.0)


@pytest.mark.parametrize(
    ("found", "trouble"),
    [(None, "unqueued"), (Found(KubeState.QUEUED, NO_WORKLOAD), "unqueued"), (QUEUED, "waited")],
)
def test_what_kueue_never_queued_is_another_kind_of_trouble(
    waiting: Waiting, clock: Clock, found: Found | None, trouble: str
) -> None:
    with pytest.raises(WaitedTooLong) as told:
        pass_in(waiting, clock, found, 101.0)
    assert told.value.trouble == trouble


def test_while_the_cluster_does_not_answer_nothing_is_given_up(waiting: Waiting, clock: Clock) -> None:
    waiting.check(QUEUED)
    waiting.unheard = True
    clock.now += 101.0
    waiting.check(QUEUED)
    waiting.unheard = False
    waiting.check(RUNNING)


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull"])
def test_what_no_wait_mends_ends_at_once(waiting: Waiting, reason: str) -> None:
    with pytest.raises(WaitedTooLong, match=f"can never begin: {reason}"):
        waiting.check(Found(KubeState.STARTING, reason, "bad"))


def test_it_is_told_since_when_and_until_when(waiting: Waiting, clock: Clock) -> None:
    waiting.told(QUEUED, 0.0)
    clock.now += 30.0
    told = "waits since 01-01 00:00:10 UTC, at most until 01-01 00:01:50 UTC (limits.queue_s)"
    assert waiting.told(QUEUED, 40.0) == told


def test_without_a_limit_it_is_waited_for_without_end(clock: Clock) -> None:
    waiting = Waiting("w", GkeLimits.model_validate({"queue_s": None}), clock)
    pass_in(waiting, clock, QUEUED, 1e9)
    assert waiting.told(QUEUED, 1e9).endswith("without end")


ALONE = Found(
    KubeState.QUEUED, "ExceedsMaxQuota", "insufficient quota for cpu in flavor a, 1 > maximum capacity (0)"
)
BEHIND = Found(
    KubeState.QUEUED, "WaitingForQuota", "insufficient unused quota for cpu in flavor a, 1 more needed"
)


@pytest.mark.parametrize(("found", "over"), [(ALONE, True), (None, True), (BEHIND, False)])
def test_where_nobody_else_has_the_quota_it_is_not_waited_for_long(
    clock: Clock, found: Found | None, over: bool
) -> None:
    waiting = Waiting("w", GkeLimits.model_validate({}), clock, alone_s=10.0)
    waiting.check(found)
    clock.now += 11.0
    if not over:
        waiting.check(found)
        assert waiting.told(BEHIND, 11.0).endswith("at most until 01-02 00:00:00 UTC (limits.queue_s)")
        return
    words = r"waited 11 s for its turn, limits\.queue_s is 10 where nobody else has the quota"
    with pytest.raises(WaitedTooLong, match=words):
        waiting.check(found)
