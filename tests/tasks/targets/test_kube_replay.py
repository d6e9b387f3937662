"""What really happened on a cluster, line by line: which states and reasons we tell of it."""

from __future__ import annotations

import pytest

from tasks.targets.kube_found import KubeState
from tasks.targets.kube_objects import Objects, uid_of
from tasks.targets.kube_states import look
from tests.tasks.targets.kube_replay import Store, lines, news, recordings, replay

UP = ["QUEUED NoWorkload", "QUEUED Pending", "STARTING Admitted", "STARTING PodsStarting", "RUNNING Started"]
WELL = ["SUCCEEDED AllJobsCompleted"]

TOLD: dict[str, dict[str, list[str]]] = {
    "b-exit1-norestart": {"bad": [*UP, "RUNNING PodFailed", "FAILED ReachedMaxRestarts"]},
    "c-exit1-maxrestarts1": {
        "retry": [
            *UP,
            "RUNNING PodFailed",
            "STARTING Restarted #2",
            "STARTING PodsStarting #2",
            "RUNNING Recovered #2",
            "SUCCEEDED AllJobsCompleted #2",
        ]
    },
    "d-quota-wait": {
        "first": [*UP, *WELL],
        "second": [*UP[:2], "QUEUED WaitingForQuota", *UP[2:], *WELL],
    },
    # Its program ended well in the seconds between the eviction and the end of its grace.
    "e2-preempt-workloadpriority": {
        "lowjob": [*UP, "PREEMPTED Preempted", *WELL],
        "highjob": [*UP[:2], "QUEUED WaitingForPreemptedWorkloads", *UP[2:], *WELL],
    },
    "f-never-fits": {"big": [*UP[:2], "QUEUED ExceedsMaxQuota"]},
    "g-no-localqueue": {"noq": [*UP[:2], "QUEUED Misconfigured", "QUEUED PendingEvaluation", *UP[2:], *WELL]},
    "h-unschedulable-nodepool": {"nonode": [*UP[:4], "PROVISIONING Unschedulable"]},
    "i-imagepullbackoff": {"noimg": [*UP[:4], "STARTING ImagePullBackOff", "FAILED Deleted"]},
    # The second has quota before the pods of the first have left their nodes.
    "j3-delete-recreate-same-name": {
        "del": [
            *UP,
            "FAILED Deleted",
            *UP[:4],
            "PROVISIONING Unschedulable",
            *UP[3:],
            *WELL,
        ]
    },
    "k2-ttl-complete": {"ttl": [*UP, *WELL]},
    "m-pod-deleted": {
        "evict": [
            *UP,
            "RUNNING PodFailed",
            "STARTING Restarted #2",
            "STARTING PodsStarting #2",
            "RUNNING Recovered #2",
            "SUCCEEDED AllJobsCompleted #2",
        ]
    },
    "n-real-command": {"real": [*UP[:4], "RUNNING PodFailed", "FAILED ReachedMaxRestarts"]},
}


def test_every_recording_is_replayed() -> None:
    assert recordings() == sorted(TOLD)


@pytest.mark.parametrize("recording", TOLD)
def test_the_states_and_reasons_of_a_recording(recording: str) -> None:
    told: dict[str, list[str]] = {}
    for line in news(recording):
        name, _, what = line.partition(" ")
        told.setdefault(name, []).append(what)
    assert told == TOLD[recording]


CAUSES = {
    "b-exit1-norestart": "pod bad-slice-job-0-1-qb7jd: container jax-tpu exited with 1; "
    "Job bad-slice-job-0: BackoffLimitExceeded: Job has reached the specified backoff limit",
    "c-exit1-maxrestarts1": "",
    "m-pod-deleted": "",
    "n-real-command": "pod real-slice-job-1-0-hkbq6: container jax-tpu exited with 42; "
    "Job real-slice-job-1: BackoffLimitExceeded: Job has reached the specified backoff limit",
}


@pytest.mark.parametrize("recording", CAUSES)
def test_the_first_cause_is_the_pod_that_failed_first_and_not_those_deleted_after_it(recording: str) -> None:
    [found] = replay(recording).found.values()
    assert str(found.cause or "") == CAUSES[recording]


def test_the_cause_of_an_attempt_outlives_its_pods() -> None:
    [found] = replay("c-exit1-maxrestarts1").found.values()
    assert [(cause.pod, cause.exit_code, cause.kind) for cause in found.causes.values()] == [
        ("retry-slice-job-0-1-dq7fw", 1, "exit")
    ]
    [found] = replay("m-pod-deleted").found.values()
    assert str(found.causes[0]) == (
        "pod evict-slice-job-1-0-ll99s was deleted while it ran (exit code 137); "
        "Job evict-slice-job-1: BackoffLimitExceeded: Job has reached the specified backoff limit"
    )


MESSAGES = {
    (
        "d-quota-wait",
        4.5,
        "second",
    ): "couldn't assign flavors to pod set slice-job: insufficient unused quota for "
    "google.com/tpu in flavor 2xv5litepod-16, 32 more needed",
    (
        "d-quota-wait",
        19.0,
        "second",
    ): "couldn't assign flavors to pod set slice-job: insufficient unused quota for "
    "google.com/tpu in flavor 2xv5litepod-16, 16 more needed",
    (
        "f-never-fits",
        99.0,
        "big",
    ): "couldn't assign flavors to pod set slice-job: insufficient quota for google.com/tpu "
    "in flavor 2xv5litepod-16, previously considered podsets requests (0) + current podset request (48) > maximum "
    "capacity (32)",
    ("g-no-localqueue", 5.0, "noq"): "LocalQueue multislice-queue doesn't exist",
    (
        "h-unschedulable-nodepool",
        99.0,
        "nonode",
    ): "1 of 4 pods have no node: 0/42 nodes are available: 42 node(s) "
    "didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/42 nodes are available: 42 "
    "Preemption is not helpful for scheduling.",
    (
        "c-exit1-maxrestarts1",
        13.0,
        "retry",
    ): "restart 1 after: pod retry-slice-job-0-1-dq7fw: container jax-tpu exited "
    "with 1; Job retry-slice-job-0: BackoffLimitExceeded: Job has reached the specified backoff limit",
}


@pytest.mark.parametrize("recording, at_s, name", MESSAGES)
def test_the_evidence_is_what_the_cluster_said(recording: str, at_s: float, name: str) -> None:
    store = replay(recording, at_s)
    [found] = [store.found[uid] for uid, one in store.jobsets.items() if one["metadata"]["name"] == name]
    assert found.message == MESSAGES[recording, at_s, name]


def test_a_second_that_waits_knows_its_place() -> None:
    store = replay("d-quota-wait", 10)
    assert [str(found.position) for found in store.found.values()] == [
        "None",
        "place 1 of 1 in queue d-quota-wait",
    ]


@pytest.mark.parametrize("recording", TOLD)
def test_one_look_without_memory_never_disagrees_on_the_end(recording: str) -> None:
    """A command that lists looks once: whoever looked all the time must not have come to another end."""
    store = Store()
    for line in lines(recording):
        store.take(line)
        if line["kind"] == "Event":
            continue
        for uid, found in store.found.items():
            if store.of(uid).jobset is None:
                continue  # then only memory knows
            fresh = look(store.of(uid))
            assert fresh.over == found.over and (not fresh.over or fresh.state == found.state)


def test_a_poller_that_missed_the_end_does_not_know_it() -> None:
    store = replay("d-quota-wait", 10)
    [found, _] = store.found.values()
    gone = look(Objects(), found)
    assert (gone.state, gone.reason) == (KubeState.GONE, "ResultUnknown")
    assert gone.message.startswith("it was RUNNING when it was last seen")
    assert look(Objects(), gone) == gone


def test_what_had_ended_before_it_went_stays_as_it_ended() -> None:
    [found] = replay("k2-ttl-complete", 21).found.values()
    assert look(Objects(), found).state == KubeState.SUCCEEDED


def test_the_last_object_that_a_watch_carried_tells_the_end() -> None:
    store = replay("k2-ttl-complete")
    [jobset] = store.deleted.values()
    assert look(store.of(uid_of(jobset))).state == KubeState.SUCCEEDED


def test_pods_are_told_apart_by_the_uid_of_their_jobset() -> None:
    store = replay("j3-delete-recreate-same-name", 26)
    first, second = (store.of(uid) for uid in store.jobsets)
    assert first.pods and second.pods
    assert not {uid_of(pod) for pod in first.pods} & {uid_of(pod) for pod in second.pods}
    assert {uid_of(event) for event in first.events}.isdisjoint(uid_of(event) for event in second.events)
