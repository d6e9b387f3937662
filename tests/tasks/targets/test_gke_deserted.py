"""A node that falls silent under a run whose other workers end of it: its Job waits for a pod that does not go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.contract import progress
from tasks.cloud.kubernetes_follow import Beat, Followed
from tasks.cloud.kubernetes_kinds import JOB_SET, NODE, POD, Kind, Object
from tasks.cloud.kubernetes_told import Line, Source
from tasks.cloud.kubernetes_watch import Change
from tasks.cloud.storage import open_folder
from tasks.targets.gke_follow import Following, Limits
from tasks.targets.kube_cause import Cause
from tasks.targets.kube_found import Found, KubeState
from tasks.targets.streams import LOST
from tasks.targets.types import PREEMPTED, Exited, State, WorkloadRef
from tests.tasks.targets.gke_runs import config

JOBSET: Object = {"kind": "JobSet", "metadata": {"uid": "u", "name": "n"}, "spec": {"replicatedJobs": []}}


def pod(index: int) -> Object:
    labels = {
        "jobset.sigs.k8s.io/jobset-uid": "u",
        "jobset.sigs.k8s.io/replicatedjob-name": "slice-job",
        "jobset.sigs.k8s.io/job-index": "0",
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    return {
        "kind": "Pod",
        "metadata": {"uid": f"p{index}", "name": f"p{index}", "labels": labels},
        "spec": {"nodeName": f"n{index}"},
        "status": {"phase": "Running"},
    }


class Cluster:
    """Has one JobSet, and nodes of which the second says this of itself."""

    def __init__(self, ready: str) -> None:
        self._ready = {"n0": "True", "n1": ready}

    def find(self, kind: Kind, name: str) -> Object | None:
        if kind == JOB_SET:
            return JOBSET
        assert kind == NODE
        return {"status": {"conditions": [{"type": "Ready", "status": self._ready[name]}]}}

    def list(self, kind: Kind, **more: Any) -> Any:
        return SimpleNamespace(items=[pod(0), pod(1)] if kind == POD else [])


def followed(beats: int) -> Iterator[Followed]:
    yield from (Change("ADDED", kind, one) for kind, one in ((JOB_SET, JOBSET), (POD, pod(0)), (POD, pod(1))))
    last = progress.encode(progress.Exited(3, "lost the supervisor of worker 1"), seq=1, at=1.0)
    yield Line(Source("p0", "p0", "worker"), "", last)
    yield from (Beat() for _ in range(beats))


@pytest.mark.parametrize(
    ("ready", "silent_s", "taken"), [("Unknown", 0.0, True), ("True", 0.0, False), ("Unknown", 9.0, False)]
)
def test_it_is_seen_in_time_that_the_node_of_those_who_do_not_end_is_away(
    ready: str, silent_s: float, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = Cluster(ready)
    ref = WorkloadRef("gke", "s", "n", "u", 1, (str(tmp_path),))
    following = Following(
        config(), cluster, open_folder(str(tmp_path)), ref, lambda: False, limits=Limits(0.0, silent_s)
    )
    beats = followed(3)
    monkeypatch.setattr(following, "_stream", lambda: beats)
    monkeypatch.setattr(following, "_judge", lambda silent: ("", "asked in the end"))
    events = list(following.events({}))
    why = "node n1 of pod p1 does not answer" if taken else "asked in the end"
    assert [one for one in events if isinstance(one, Exited)] == [
        Exited(0, 3, "lost the supervisor of worker 1"), Exited(1, LOST, why)
    ]  # fmt: skip
    assert any(isinstance(one, State) and one.state == PREEMPTED for one in events) == taken


@pytest.mark.parametrize("kind", ["out_of_memory", "exit"])
def test_who_only_saw_that_another_was_gone_does_not_say_why_where_the_cluster_knows(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = WorkloadRef("gke", "s", "n", "u", 1, (str(tmp_path),))
    cluster: Any = Cluster("True")
    following = Following(
        config(), cluster, open_folder(str(tmp_path)), ref, lambda: False, limits=Limits(0.0, 0.0)
    )
    monkeypatch.setattr(following, "_stream", lambda: followed(1))

    def judge(silent: bool) -> tuple[str, str]:
        cause = Cause(kind, 0, "p1", "worker", 137, "OOMKilled")
        following._seen.found = Found(KubeState.FAILED, causes={0: cause})
        return "", str(cause)

    monkeypatch.setattr(following, "_judge", judge)
    [first, second] = [one for one in following.events({}) if isinstance(one, Exited)]
    assert second == Exited(1, LOST, str(Cause(kind, 0, "p1", "worker", 137, "OOMKilled")))
    blind = Exited(0, 3, "lost the supervisor of worker 1")
    assert first == (replace(second, worker=0) if kind == "out_of_memory" else blind)
