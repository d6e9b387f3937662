"""The list of workloads: xpk's columns and filters over what a real cluster said."""

from __future__ import annotations

import pytest

from runtime.contract.errors import BadInput
from tasks.targets.kube_found import KubeState
from tasks.targets.kube_objects import uid_of
from tasks.targets.kube_rows import FILTERS, Row, rows
from tests.tasks.targets.kube_replay import lines, objects_at, recordings

XPK = ("EVERYTHING", "FINISHED", "RUNNING", "QUEUED", "FAILED", "SUCCESSFUL")


def listed(recording: str, at_s: float, which: str = "EVERYTHING", job: str = "") -> list[str]:
    return [_text(row) for row in rows(objects_at(recording, at_s), which, job)]


def _text(row: Row) -> str:
    return f"{row.name} {row.priority} {row.needed} {row.running} {row.done} {row.status} {row.reason}"


TABLE = [
    ("b-exit1-norestart", 1.9, ["bad  8 0 0 QUEUED NoWorkload"]),
    ("b-exit1-norestart", 2.0, ["bad 0 8 0 0 QUEUED Pending"]),
    ("b-exit1-norestart", 5.5, ["bad 0 8 2 0 STARTING PodsStarting"]),
    ("b-exit1-norestart", 9.0, ["bad 0 8 8 0 RUNNING Started"]),
    ("b-exit1-norestart", 12.0, ["bad 0 8 4 3 RUNNING PodFailed"]),
    ("b-exit1-norestart", 99.0, ["bad 0 8 0 5 FAILED ReachedMaxRestarts"]),
    ("d-quota-wait", 10.0, ["first 0 8 8 0 RUNNING Started", "second 0 8 0 0 QUEUED WaitingForQuota"]),
    ("d-quota-wait", 25.0, ["first 0 8 0 8 SUCCEEDED AllJobsCompleted", "second 0 8 6 2 RUNNING Started"]),
    (
        "e2-preempt-workloadpriority",
        17.0,
        ["lowjob low 8 5 3 PREEMPTED Preempted", "highjob high 8 0 0 QUEUED WaitingForPreemptedWorkloads"],
    ),
    ("f-never-fits", 99.0, ["big 0 12 0 0 QUEUED ExceedsMaxQuota"]),
    ("h-unschedulable-nodepool", 99.0, ["nonode 0 4 0 0 PROVISIONING Unschedulable"]),
    ("i-imagepullbackoff", 20.0, ["noimg 0 4 0 0 STARTING ImagePullBackOff"]),
    ("k2-ttl-complete", 24.5, ["ttl 0 8 0 8 SUCCEEDED AllJobsCompleted"]),
    ("k2-ttl-complete", 99.0, []),
]


@pytest.mark.parametrize("recording, at_s, told", TABLE)
def test_rows_say_what_was_there(recording: str, at_s: float, told: list[str]) -> None:
    assert listed(recording, at_s) == told


FILTERED = [
    ("d-quota-wait", 10.0, {"RUNNING": ["first"], "QUEUED": ["second"]}),
    ("d-quota-wait", 25.0, {"SUCCESSFUL": ["first"], "FINISHED": ["first"], "RUNNING": ["second"]}),
    ("b-exit1-norestart", 99.0, {"FAILED": ["bad"], "FINISHED": ["bad"]}),
    ("b-exit1-norestart", 2.05, {"RUNNING": ["bad"]}),
    ("e2-preempt-workloadpriority", 17.0, {"QUEUED": ["lowjob", "highjob"]}),
    ("h-unschedulable-nodepool", 99.0, {"QUEUED": ["nonode"]}),
]


@pytest.mark.parametrize("recording, at_s, let_through", FILTERED)
def test_filters_let_through_what_their_names_say(
    recording: str, at_s: float, let_through: dict[str, list[str]]
) -> None:
    for which in XPK[1:]:
        names = [line.split()[0] for line in listed(recording, at_s, which)]
        assert names == let_through.get(which, []), which


def test_every_state_is_let_through_by_one_of_the_four_and_everything() -> None:
    for state in set(KubeState) - {KubeState.GONE}:
        assert state in FILTERS["EVERYTHING"]
        assert sum(state in FILTERS[which] for which in ("RUNNING", "QUEUED", "FAILED", "SUCCESSFUL")) == 1


@pytest.mark.parametrize("recording", recordings())
def test_a_workload_is_in_one_filter_at_every_line(recording: str) -> None:
    objects: dict[str, object] = {}
    for number, line in enumerate(lines(recording)):
        if line["type"] == "MARK":
            continue
        objects[uid_of(line["object"])] = line["object"]
        if line["kind"] not in ("JobSet", "Workload") or number % 3:
            continue
        known = list(objects.values())
        for row in rows(known):
            [which] = [
                one for one in ("RUNNING", "QUEUED", "FAILED", "SUCCESSFUL") if row.status in FILTERS[one]
            ]
            assert row in rows(known, which)


def test_names_are_filtered_by_a_regular_expression() -> None:
    assert [line.split()[0] for line in listed("d-quota-wait", 25, job="^sec.nd$")] == ["second"]
    assert listed("d-quota-wait", 25, job="irs") == listed("d-quota-wait", 25, job="first")
    with pytest.raises(BadInput, match="no regular expression"):
        rows([], job="(")


def test_a_filter_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="EVERYTHING, FINISHED, RUNNING, QUEUED, FAILED, SUCCESSFUL"):
        rows([], "DONE")
    assert rows([], "successful") == []


def test_without_pods_the_jobset_tells_how_many_run() -> None:
    known = [one for one in objects_at("d-quota-wait", 10) if one["kind"] not in ("Pod", "Job")]
    assert [(row.running, row.status) for row in rows(known)] == [(8, "RUNNING"), (0, "QUEUED")]


def test_a_workload_without_its_jobset_is_listed_by_its_owners_name() -> None:
    known = [one for one in objects_at("b-exit1-norestart") if one["kind"] == "Workload"]
    [row] = rows(known)
    assert (row.name, row.kind, row.needed, row.status) == ("bad", "JobSet", 8, "FAILED")
    del known[0]["metadata"]["ownerReferences"]
    assert [row.name for row in rows(known)] == ["jobset-bad-a43f6"]


def test_of_pathways_only_the_pods_with_accelerators_are_workers() -> None:
    def job(name: str, replicas: int, limits: dict[str, str]) -> object:
        pod = {"containers": [{"resources": {"limits": limits}}]}
        return {
            "name": name,
            "replicas": replicas,
            "template": {"spec": {"parallelism": 2, "template": {"spec": pod}}},
        }

    jobs = [job("head", 1, {"cpu": "8"}), job("worker", 3, {"google.com/tpu": "4"})]
    [row] = rows(
        [{"kind": "JobSet", "metadata": {"name": "p", "uid": "u"}, "spec": {"replicatedJobs": jobs}}]
    )
    assert row.needed == 6


def test_priorities_of_both_versions_of_kueue_are_read() -> None:
    def workload(**spec: object) -> object:
        return {"kind": "Workload", "metadata": {"name": "w", "uid": "w"}, "spec": spec}

    told = [
        rows([workload(priorityClassRef={"name": "high"}, priority=750)]),
        rows([workload(priorityClassName="low", priority=250)]),
        rows([workload(priority=7)]),
    ]
    assert [row.priority for [row] in told] == ["high", "low", "7"]
