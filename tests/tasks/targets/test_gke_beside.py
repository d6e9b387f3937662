"""What is told of what stands beside workers, from pods as a kubelet reports them and a clock that is set by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.cloud.kubernetes_told import Line, LogEnd, Source
from tasks.targets.gke_beside import Beside
from tasks.targets.kube_standing import standing
from tasks.targets.types import NeverUp, SidecarLine

PULL = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
BACK_OFF = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
LOOPS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
RUNS: dict[str, Any] = {"running": {"startedAt": "2026-11-30T10:00:00Z"}}
WAITS = {"waiting": {"reason": "PodInitializing"}}


def ended(code: int = 1, seconds: int = 2, reason: str = "Error") -> dict[str, Any]:
    times = {
        "startedAt": "2026-11-30T10:00:00Z",
        "finishedAt": f"2026-11-30T10:{seconds // 60:02d}:{seconds % 60:02d}Z",
    }
    return {"terminated": {"exitCode": code, "reason": reason, **times}}


def pod(
    state: dict[str, Any] = RUNS, last: dict[str, Any] | None = None, restarts: int = 0, *,
    up: bool = False, main: dict[str, Any] = WAITS, name: str = "p-0", **meta: Any,
) -> dict[str, Any]:  # fmt: skip
    beside = {
        "name": "proxy",
        "restartPolicy": "Always",
        "startupProbe": {"periodSeconds": 1, "failureThreshold": 60},
    }
    told = {"name": "proxy", "state": state, "lastState": last or {}, "restartCount": restarts, "started": up}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"uid-{name}", **meta},
        "spec": {"initContainers": [{"name": "first"}, beside], "containers": [{"name": "worker"}]},
        "status": {
            "phase": "Pending",
            "initContainerStatuses": [{"name": "first", "state": ended(0)}, told],
            "containerStatuses": [{"name": "worker", "state": main}],
        },
    }


@pytest.mark.parametrize(
    ("seen", "ends", "never"),
    [
        (pod(WAITS), 0, ""),
        (pod(), 0, ""),
        (pod(LOOPS, ended(3)), 1, ""),
        (pod(LOOPS, ended(3), 1), 2, ""),
        (pod(RUNS, ended(3), 2), 2, ""),
        (pod(LOOPS, ended(3), 2), 3, "it ended 3 times before it was up, and exited with 3 at last"),
        (pod(ended(3), {}, 2), 3, "it ended 3 times before it was up, and exited with 3 at last"),
        (pod(RUNS, ended(137, 60), 1), 1, "it was not up within 60 s, by its startup probe, and exited with 137 t"),
        (pod(RUNS, ended(137, 59, "OOMKilled"), 1), 1, "within 60 s, by its startup probe, and exited with 137 (OOM"),
        (pod(RUNS, ended(1, 58), 1), 1, ""),
        (pod(RUNS, ended(1, 60), 1, up=True), 1, ""),
        (pod(LOOPS, ended(3), 9, main=RUNS), 10, ""),
        (pod({"waiting": {"reason": "InvalidImageName", "message": "bad"}}), 0, "InvalidImageName: bad"),
        (pod(BACK_OFF), 0, ""),
    ],
)  # fmt: skip
def test_how_it_is_is_known_from_its_pod(seen: dict[str, Any], ends: int, never: str) -> None:
    (one,) = standing(seen)
    assert one.ends == ends
    assert never in one.never_up() and bool(never) == bool(one.never_up())


@pytest.mark.parametrize(
    "seen",
    [
        pod(ended(143), main=ended(0)),
        pod(ended(143), main=RUNS, deletionTimestamp="2026-11-30T10:00:09Z"),
        {**pod(ended(143)), "status": {"phase": "Failed"}},
    ],
)
def test_what_it_does_after_the_program_means_nothing(seen: dict[str, Any]) -> None:
    assert list(standing(seen)) == []


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def source(restart: int, name: str = "p-0") -> Source:
    return Source(name, f"uid-{name}", "proxy", restart)


def test_an_image_that_is_missing_for_two_minutes_ends_it_and_one_that_comes_does_not() -> None:
    clock = Time()
    beside = Beside("w", "proxy", clock)
    for clock.now, state in ((0.0, PULL), (60.0, BACK_OFF), (119.0, PULL)):
        assert [*beside.changed(pod(state), False), *beside.beat()] == []
    assert [*beside.changed(pod(), False)] == []
    clock.now = 130.0
    assert [*beside.beat(), *beside.changed(pod(PULL), False)] == [], "it had come"
    clock.now = 251.0
    with pytest.raises(
        NeverUp, match="w can never begin: pod p-0: container proxy: ImagePullBackOff: no such image: fix"
    ):
        list(beside.beat())
    list(beside.changed(pod(PULL), True))
    assert list(beside.beat()) == [], "its pod is gone"


def test_what_a_pod_that_is_to_go_waited_for_is_no_obstacle() -> None:
    clock = Time()
    beside = Beside("w", "proxy", clock)
    assert not list(beside.changed(pod(BACK_OFF), gone=False))
    assert not list(beside.changed(pod(BACK_OFF, deletionTimestamp="2026-11-30T10:00:00Z"), gone=False))
    clock.now += 121
    assert not list(beside.beat())


def test_one_that_was_up_is_no_obstacle_though_the_workers_image_takes_long() -> None:
    beside = Beside("w", "", Time())
    for seen in (pod(up=True), pod(RUNS, ended(1, 90), 1), pod(LOOPS, ended(1), 4)):
        list(beside.changed(seen, False))
    assert list(beside.beat()) == []


def test_an_end_is_told_once_its_last_line_is_read_or_will_not_be() -> None:
    clock = Time()
    beside = Beside("w", "proxy", clock)
    assert list(beside.changed(pod(up=True, main=RUNS), False)) == []
    said = beside.said(Line(source(0), "2026-11-30T10:00:01.000000002Z", "no buffers"), 1)
    assert said == SidecarLine(1, 1796032801000000002, "no buffers")
    assert beside.said(Line(source(0), "2026-11-30T10:00:01.000000002Z", " "), 1).cursor == said.cursor + 1
    assert not beside.is_said
    again = pod(RUNS, ended(7), 1, up=True, main=RUNS)
    assert [*beside.changed(again, False), *beside.beat()] == []
    (state,) = beside.read(LogEnd(source(0), True))
    assert (state.state, state.reason) == ("sidecar", "ended") and beside.is_said
    assert state.evidence == (
        "pod p-0: container proxy exited with 7, 1 end by now: the cluster starts it again; what goes through it fails "
        "meanwhile: it said last: no buffers"
    )
    assert [*beside.changed(again, False), *beside.beat()] == [], "once"
    assert list(beside.changed(pod(LOOPS, ended(7), 1, main=RUNS), False)) == []
    clock.now = 6.0
    (state,) = beside.beat()
    assert state.reason == "CrashLoopBackOff" and "2 ends by now" in state.evidence
    assert "said last" not in state.evidence, "nobody could read it"


def test_of_many_pods_of_which_it_is_so_three_are_told() -> None:
    beside = Beside("w", "another", Time())
    told = [
        state
        for number in range(9)
        for state in beside.changed(pod(LOOPS, ended(1), name=f"p-{number}"), False)
    ]
    assert len(told) == 3 and "further pods like this are not reported" in told[-1].evidence
