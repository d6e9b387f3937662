"""Following a JobSet on the stand-in: all changes in order, each line once, whatever happens in between."""

from __future__ import annotations

import threading
from pathlib import Path

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_follow import follow
from tasks.cloud.kubernetes_kinds import EVENT, JOB_SET, POD
from tasks.cloud.kubernetes_told import Line
from tests.cloud.kubernetes.manifests import TPU
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.tasks.cloud.following import (
    COUNTS,
    QUICK,
    WAITS,
    Following,
    assert_ordered,
    made,
)
from tests.waiting import until


def test_a_job_set_is_followed_from_its_begin_to_its_last_line(kube: Kubernetes) -> None:
    told = Following(kube, made(kube, "whole", COUNTS.format(lines=20, pause=0.005), slices=2)).end()
    assert_ordered(told)
    assert len(told.lines) == 4
    assert all(lines == [f"line {number}" for number in range(20)] for lines in told.lines.values())
    assert [end.complete for end in told.ends] == [True] * 4
    assert {one.kind.name for one in told.changes} >= {"JobSet", "Job", "Pod"}
    assert "managedFields" not in str(told.changes[0].object)
    first = next(one for one in told.items if isinstance(one, Line))
    assert first.at.endswith("Z") and first.source.container == "jax-tpu" and first.source.restart == 0


def test_of_a_job_set_that_had_ended_before_all_is_read(
    kube: Kubernetes, followed_cluster: KubernetesStandIn
) -> None:
    one = made(kube, "before", COUNTS.format(lines=5, pause=0))
    until(lambda: "terminalState" in (kube.get(JOB_SET, "before").get("status") or {}))
    followed_cluster.fault(verb="list", kind="pods", action="stall", seconds=0.5)
    told = Following(kube, one).end()
    assert list(told.lines.values()) == [[f"line {number}" for number in range(5)]] * 2
    assert [end.complete for end in told.ends] == [True] * 2


def test_a_pod_that_is_deleted_ends_its_own_lines_only(kube: Kubernetes, tmp_path: Path) -> None:
    go = tmp_path / "go"
    program = COUNTS.format(lines=30, pause=0) + WAITS.format(file=str(go))
    following = Following(kube, made(kube, "pods", program, failurePolicy={"maxRestarts": 1}))
    until(lambda: following.lines() >= 10)
    victim = next(one for one in following.told.items if isinstance(one, Line)).source
    kube.delete(POD, victim.pod, grace_s=0)
    go.touch()
    told = following.end()
    # A deleted pod is a failed one: the whole JobSet begins anew, with other pods.
    assert len(told.lines) == 4
    whole = [*(f"line {number}" for number in range(30)), "up", "done"]
    assert sorted(len(lines) for lines in told.lines.values())[2:] == [32, 32]
    assert all(lines == whole[: len(lines)] for lines in told.lines.values())
    assert len(told.ends) == 4
    assert any(one.type == "DELETED" and one.object["metadata"]["uid"] == victim.uid for one in told.changes)


def test_a_container_that_starts_again_is_followed_start_by_start(
    kube: Kubernetes, followed_cluster: KubernetesStandIn
) -> None:
    followed_cluster.set(backoff_s=0.05)
    program = (
        "import os, pathlib, time\n"
        "mark = pathlib.Path('starts')\n"
        "starts = len(mark.read_text()) if mark.exists() else 0\n"
        "mark.write_text('x' * (starts + 1))\n"
        "for number in range(20): print(starts, number, flush=True)\n"
        "raise SystemExit(1 if starts < 1 else 0)\n"
    )
    pod = {"restartPolicy": "OnFailure"}
    told = Following(kube, made(kube, "again", program, pods=1, pod=pod, job={"backoffLimit": 5})).end()
    sources = {one.source.restart: [] for one in told.items if isinstance(one, Line)}  # type: dict[int, list[str]]
    for one in told.items:
        if isinstance(one, Line):
            sources[one.source.restart].append(one.text)
    assert sources == {start: [f"{start} {number}" for number in range(20)] for start in range(2)}
    assert [(end.source.restart, end.complete) for end in told.ends] == [(0, True), (1, True)]


def test_of_a_container_that_was_started_again_before_the_last_log_is_read_too(
    kube: Kubernetes, followed_cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    followed_cluster.set(backoff_s=0.05)
    go = tmp_path / "go"
    program = (
        "import pathlib\nmark = pathlib.Path('starts')\n"
        "starts = len(mark.read_text()) if mark.exists() else 0\nmark.write_text('x' * (starts + 1))\n"
        "print('start', starts, flush=True)\n"
        "if starts < 2: raise SystemExit(1)\n"
    )
    pod = {"restartPolicy": "OnFailure"}
    program += WAITS.format(file=str(go))
    whole = made(kube, "late", program, pods=1, pod=pod, slices=1, job={"backoffLimit": 5})

    def is_third() -> bool:
        pods = kube.list(POD, labels="jobset.sigs.k8s.io/jobset-name=late").items
        seen = [one for pod in pods for one in pod["status"].get("containerStatuses", ())]
        return any(one["restartCount"] == 2 for one in seen)

    until(is_third)
    following = Following(kube, whole)
    until(lambda: following.lines() >= 2)
    go.touch()
    told = following.end()
    found = {
        one.source.restart: one.text for one in told.items if isinstance(one, Line) and "start" in one.text
    }
    assert found == {1: "start 1", 2: "start 2"}, "the server has none of the one before"


def test_a_last_line_without_an_end_is_one_and_long_ones_are_bounded(kube: Kubernetes) -> None:
    program = "print('x' * 3_000_000)\nprint('y')\nprint('no end', end='')"
    told = Following(kube, made(kube, "ends", program, pods=1)).end()
    [lines] = told.lines.values()
    assert lines[-2:] == ["y", "no end"]
    assert {letter for line in lines[:-2] for letter in line} == {"x"}
    assert all(len(line) <= 1 << 20 for line in lines)


def test_a_cluster_without_kueue_is_followed_as_well(tmp_path: Path) -> None:
    pools = [tpu_pool("np-0", *TPU.values(), hosts=4)]
    with KubernetesStandIn.started(tmp_path, nodes=pools, without=("kueue",)) as bare:
        kube = Kubernetes(by_context("standin", str(bare.kubeconfig)))
        told = Following(kube, made(kube, "bare", "print('hello')")).end()
    assert sorted(told.lines.values()) == [["hello"]] * 2
    assert "Workload" not in {one.kind.name for one in told.changes}


def test_events_are_those_about_the_job_set_and_its_parts(kube: Kubernetes) -> None:
    pod = {"nodeSelector": {"no": "such-node"}}
    following = Following(kube, made(kube, "events", "pass", pod=pod))

    def reasons() -> set[str]:
        return {one.object["reason"] for one in following.told.changes if one.kind == EVENT}

    until(lambda: "FailedScheduling" in reasons())
    kube.delete(JOB_SET, "events")
    told = following.end()
    about = {one.object["involvedObject"]["name"] for one in told.changes if one.kind == EVENT}
    assert all(name.startswith("events") for name in about), about
    assert told.lines == {}


def test_who_stops_listening_leaves_nothing_behind(
    kube: Kubernetes, followed_cluster: KubernetesStandIn
) -> None:
    one = made(kube, "leave", COUNTS.format(lines=10_000, pause=0.01))
    meta = one["metadata"]
    threads = set(threading.enumerate())
    followed = follow(kube.access, "default", meta["name"], meta["uid"], patience=QUICK)
    for item in followed:
        if isinstance(item, Line):
            break
    followed.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= threads
    until(lambda: followed_cluster.inventory()["streams"] == 0)
