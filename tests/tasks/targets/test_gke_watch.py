"""When a workload that is followed has been taken away, and when it failed and was started again: never both."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.cloud.kubernetes_kinds import EVENT, JOB, JOB_SET
from tasks.cloud.kubernetes_watch import Change
from tasks.config.gke_target import GkeTargetConfig
from tasks.targets.gke_plan import restarting_codes
from tasks.targets.gke_watch import Seen, ended_from_outside, failed_and_restarted, how_it_ended, taken_away
from tasks.targets.kube_cause import Cause
from tasks.targets.kube_found import Found, KubeState
from tasks.targets.kube_objects import select
from tasks.targets.kube_states import look
from tasks.targets.types import Restarts
from tests.tasks.targets.gke_runs import config

EXIT = Cause("exit", 0, "p-0", "worker", 1)
DRAINED = Cause("preempted", 0, "p-0", reason="EvictionByEvictionAPI")
GONE = Cause(
    "job",
    0,
    job="j",
    job_reason="PodFailurePolicy",
    job_message="Pod ns/p-0 has condition DisruptionTarget matching FailJob rule at index 0",
)


@pytest.mark.parametrize(
    ("found", "taken", "failed"),
    [
        (Found(KubeState.RUNNING), "", ""),
        (Found(KubeState.PREEMPTED, "Preempted", "for another"), "Preempted: for another", ""),
        (Found(KubeState.STARTING, restarts=1), "it was started again", ""),
        (Found(KubeState.RUNNING, evictions=1), "it was started again", ""),
        (Found(KubeState.FAILED, causes={0: EXIT}), "", ""),
        (Found(KubeState.FAILED, causes={0: DRAINED}), "pod p-0 was taken away (EvictionByEvictionAPI)", ""),
        (Found(KubeState.FAILED, causes={0: GONE}), f"Job j: PodFailurePolicy: {GONE.job_message}", ""),
        (Found(KubeState.RUNNING, causes={0: DRAINED}), "", ""),
        (
            Found(KubeState.STARTING, restarts=1, counted=1, causes={0: EXIT}),
            "it was started again after: pod p-0: container worker exited with 1",
            "JobSet started it again after: pod p-0: container worker exited with 1",
        ),
    ],
)
def test_what_became_of_a_start(found: Found, taken: str, failed: str) -> None:
    """Whoever asks for both asks first whether it failed."""
    assert taken_away(found, 1) == taken
    assert failed_and_restarted(found, 0) == failed
    assert failed_and_restarted(found, 1) == "", "it had been when it was followed"


OOM = Cause("out_of_memory", 0, "p-1", "worker", 137, "OOMKilled")
LATE = Cause("deadline", 0, job="j", job_reason="DeadlineExceeded", job_message="too long")
SWITCHED_OFF = "DeactivatedDueToMaximumExecutionTimeExceeded"


@pytest.mark.parametrize(
    ("found", "from_outside", "told"),
    [
        (Found(KubeState.SUCCEEDED), False, ""),
        (Found(KubeState.FAILED, causes={0: EXIT}), False, "pod p-0: container worker exited with 1"),
        (
            Found(KubeState.FAILED, causes={0: OOM}),
            True,
            "pod p-1: container worker was killed for want of memory (OOMKilled) (exit code 137)",
        ),
        (Found(KubeState.FAILED, "Deleted", "it was deleted"), True, "Deleted: it was deleted"),
        (
            Found(KubeState.FAILED, causes={0: LATE}),
            True,
            "it took longer than the 60 s of limits.workload_s: Job j: DeadlineExceeded: too long",
        ),
        (
            Found(KubeState.FAILED, SWITCHED_OFF, "off", causes={0: Cause("deleted", 0, "p-0")}),
            True,
            f"it took longer than the 60 s of limits.workload_s: {SWITCHED_OFF}: off",
        ),
    ],
)
def test_what_workers_cannot_know_of_their_end_the_cluster_tells(
    found: Found, from_outside: bool, told: str
) -> None:
    assert ended_from_outside(found) == from_outside
    assert how_it_ended(found, 60) == told


@pytest.mark.parametrize(("message", "told"), [(GONE.job_message, True), ("its program failed", False)])
def test_a_job_tells_of_hardware_that_is_gone_whatever_is_left_of_its_pods(message: str, told: bool) -> None:
    why = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": message}
    seen = Seen(config(), "u")
    labels = {"jobset.sigs.k8s.io/jobset-uid": "u"}
    job = {
        "kind": "Job",
        "metadata": {"uid": "j", "name": "j", "labels": labels},
        "status": {"conditions": [why]},
    }
    seen.take(Change("ADDED", JOB_SET, {"kind": "JobSet", "metadata": {"uid": "u", "name": "n"}}))
    seen.take(Change("ADDED", JOB, job))
    assert seen.taken() == (f"Job j: PodFailurePolicy: {message}" if told else "")


def test_restarts_that_count_are_told_apart_and_remembered() -> None:
    def jobset(**status: int) -> dict[str, Any]:
        return {"kind": "JobSet", "metadata": {"uid": "u", "name": "n"}, "spec": {}, "status": status}

    found = look(select("u", [jobset(restarts=2, restartsCountTowardsMax=1)]))
    assert (found.restarts, found.counted) == (2, 1)
    assert look(select("u", [jobset(restarts=2)]), found).counted == 1


@pytest.mark.parametrize(
    ("fields", "restarts", "by", "not_by"),
    [
        ({}, 0, [], [1, 3, 137]),
        ({"max_restarts": 2}, 2, [42, 137, 143, None], [1, 3]),
        ({"max_restarts": 2, "restart_exit_codes": "1,3-4"}, 2, [1, 3, 4, 137], [2, 0]),
        ({"max_restarts": 2, "restart_on_user_code_failure": True}, 2, [1, 2, 3, 137, None], [0]),
    ],
)
def test_after_which_codes_a_run_is_started_again(
    fields: dict[str, Any], restarts: int, by: list[int | None], not_by: list[int]
) -> None:
    given: GkeTargetConfig = config(**fields)
    told = Restarts(given.max_restarts, restarting_codes(given))
    assert told.most == restarts
    known = [code for code in by if code is not None or told.codes is None]
    assert all(told.after(code) for code in known)
    assert not any(told.after(code) for code in not_by)


def test_nothing_is_told_before_its_jobset_was() -> None:
    """A watch tells of one kind after the other when it begins: an event alone is no JobSet that is gone."""
    seen = Seen(config(), "u")
    assert not seen.take(Change("ADDED", EVENT, {"kind": "Event", "metadata": {"uid": "e", "name": "n.1"}}))
    there = {"kind": "JobSet", "metadata": {"uid": "u", "name": "n"}, "spec": {}}
    assert seen.take(Change("ADDED", JOB_SET, there))
    assert seen.found is not None and seen.found.state is KubeState.STARTING
    assert not seen.take(Change("MODIFIED", JOB_SET, there))
