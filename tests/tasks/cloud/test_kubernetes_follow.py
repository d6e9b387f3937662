"""Following a JobSet on the stand-in: all changes in order, each line once, whatever happens in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import by_endpoint
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_errors import PermissionDenied, Unreachable, Untrusted
from tasks.cloud.kubernetes_follow import Followed, follow
from tasks.cloud.kubernetes_kinds import EVENT, JOB, JOB_SET, POD, Object
from tasks.cloud.kubernetes_link import Patience
from tasks.cloud.kubernetes_logs import Line, LogEnd
from tasks.cloud.kubernetes_watch import Change, Contact, Query, watch
from tasks.cloud.timing import Timing
from tests.cloud.authority import Authority
from tests.cloud.kubernetes.manifests import TPU, config_map, jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.waiting import PATIENCE_S, until

QUICK = Patience(away_s=PATIENCE_S, refused_s=5.0, first_pause_s=0.05, longest_pause_s=0.2, silence_s=60.0)
COUNTS = """
import time
for number in range({lines}):
    print("line", number, flush=True)
    time.sleep({pause})
"""
WAITS = """
import pathlib, time
print("up", flush=True)
while not pathlib.Path({file!r}).exists():
    time.sleep(0.02)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    pools = [tpu_pool(f"np-{one}", *TPU.values(), hosts=4) for one in range(2)]
    with KubernetesStandIn.started(tmp_path_factory.mktemp("cluster"), nodes=pools) as started:
        yield started


@pytest.fixture
def kube(cluster: KubernetesStandIn) -> Iterator[Kubernetes]:
    access = by_context("standin", str(cluster.kubeconfig))
    kube = Kubernetes(access, timing=Timing(60.0, PATIENCE_S, 0.02, 0.2))
    yield kube
    cluster.fault()
    for one in kube.list(JOB_SET).items:
        kube.delete(JOB_SET, one["metadata"]["name"])
    cluster.assert_nothing_left(but=("configmaps", "events"))


def ended(change: Change) -> bool:
    return change.kind == JOB_SET and (
        change.type == "DELETED" or "terminalState" in (change.object.get("status") or {})
    )


@dataclass
class Told:
    """What was followed, sorted."""

    items: list[Followed] = field(default_factory=list)

    @property
    def lines(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in self.items:
            if isinstance(one, Line):
                found.setdefault(one.source.pod, []).append(one.text)
        return found

    @property
    def ends(self) -> list[LogEnd]:
        return [one for one in self.items if isinstance(one, LogEnd)]

    @property
    def changes(self) -> list[Change]:
        return [one for one in self.items if isinstance(one, Change)]

    @property
    def contacts(self) -> list[str]:
        return [one.lost for one in self.items if isinstance(one, Contact)]


class Following(threading.Thread):
    """A JobSet that is followed in a thread, so that a test can do things meanwhile."""

    def __init__(self, kube: Kubernetes, made: Object, **more: Any) -> None:
        super().__init__(daemon=True)
        self.told = Told()
        self.error: Exception | None = None
        meta = made["metadata"]
        more = {"until": ended, "patience": QUICK, **more}
        self.iterator = follow(kube.access, meta["namespace"], meta["name"], meta["uid"], **more)
        self.start()

    def run(self) -> None:
        try:
            for one in self.iterator:
                self.told.items.append(one)
        except Exception as error:  # noqa: BLE001 (raised in `end`)
            self.error = error

    def lines(self) -> int:
        return sum(isinstance(one, Line) for one in list(self.told.items))

    def end(self) -> Told:
        self.join(PATIENCE_S)
        assert not self.is_alive(), "it goes on following"
        if self.error is not None:
            raise self.error
        return self.told


def made(kube: Kubernetes, name: str, program: str, **more: Any) -> Object:
    return kube.create(JOB_SET, jobset(name, program, **{"slices": 1, **more}))


def versions(told: Told, uid: str) -> list[int]:
    return [
        int(one.object["metadata"]["resourceVersion"])
        for one in told.changes
        if one.object["metadata"]["uid"] == uid
    ]


def assert_ordered(told: Told) -> None:
    """Each object was told first as added, each version once, in order."""
    for uid in {one.object["metadata"]["uid"] for one in told.changes}:
        mine = [one for one in told.changes if one.object["metadata"]["uid"] == uid]
        assert [one.type == "ADDED" for one in mine] == [True] + [False] * (len(mine) - 1), uid
        seen = versions(told, uid)
        assert seen == sorted(set(seen)), uid


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


def test_of_a_job_set_that_had_ended_before_all_is_read(kube: Kubernetes, cluster: KubernetesStandIn) -> None:
    one = made(kube, "before", COUNTS.format(lines=5, pause=0))
    until(lambda: "terminalState" in (kube.get(JOB_SET, "before").get("status") or {}))
    cluster.fault(verb="list", kind="pods", action="stall", seconds=0.5)
    told = Following(kube, one).end()
    assert list(told.lines.values()) == [[f"line {number}" for number in range(5)]] * 2
    assert [end.complete for end in told.ends] == [True] * 2


def test_lines_are_neither_lost_nor_repeated_when_logs_are_cut_again_and_again(
    kube: Kubernetes, cluster: KubernetesStandIn
) -> None:
    following = Following(kube, made(kube, "cuts", COUNTS.format(lines=150, pause=0.01)))
    for what, lines in (("log", 10), ("all", 60), ("log", 100), ("watch", 140), ("all", 180), ("log", 220)):
        until(lambda lines=lines: following.lines() >= lines)
        cluster.tell("cut", what=what)
    told = following.end()
    assert list(told.lines.values()) == [[f"line {number}" for number in range(150)]] * 2
    assert_ordered(told)
    assert all(end.complete for end in told.ends)


def test_the_api_may_be_away_while_pods_go_on(kube: Kubernetes, cluster: KubernetesStandIn) -> None:
    following = Following(kube, made(kube, "away", COUNTS.format(lines=100, pause=0.01)))
    until(lambda: following.lines() >= 20)
    cluster.down()
    until(lambda: following.told.contacts)
    cluster.up()
    told = following.end()
    assert list(told.lines.values()) == [[f"line {number}" for number in range(100)]] * 2
    assert_ordered(told)
    assert all(end.complete for end in told.ends)
    assert [bool(text) for text in told.contacts] == [True, False]
    assert "is the cluster up" in told.contacts[0]


def test_what_a_forgetful_server_no_longer_knows_is_listed_and_compared(
    kube: Kubernetes, cluster: KubernetesStandIn
) -> None:
    for name in ("stays", "changes", "goes"):
        kube.apply(config_map(name, a="1") | {"metadata": {"name": name, "namespace": "default"}})
    kind = kube.kind_of({"apiVersion": "v1", "kind": "ConfigMap"})
    # Each namespace has a ConfigMap of the cluster's own besides.
    watched = watch(kube.access, [Query(kind, "default", fields="metadata.name!=kube-root-ca.crt")], QUICK)
    changes = (one for one in watched if isinstance(one, Change))
    assert {next(changes).type for _ in range(3)} == {"ADDED"}
    cluster.fault(verb="watch", kind="configmaps", action="error", code=503, times=1_000)
    cluster.tell("cut", what="watch")
    kube.delete(kind, "goes")
    kube.patch(kind, "changes", {"data": {"a": "2"}})
    kube.apply(config_map("new") | {"metadata": {"name": "new", "namespace": "default"}})
    cluster.tell("compact")
    cluster.fault()
    told = [next(changes) for _ in range(3)]
    changes.close()
    assert sorted((one.type, one.object["metadata"]["name"]) for one in told) == [
        ("ADDED", "new"),
        ("DELETED", "goes"),
        ("MODIFIED", "changes"),
    ]
    assert next(one for one in told if one.type == "DELETED").object["data"] == {"a": "1"}
    for name in ("stays", "changes", "new"):
        kube.delete(kind, name)


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
    kube: Kubernetes, cluster: KubernetesStandIn
) -> None:
    cluster.set(backoff_s=0.05)
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


def test_a_last_line_without_an_end_is_one_and_long_ones_are_bounded(kube: Kubernetes) -> None:
    program = "print('x' * 3_000_000)\nprint('y')\nprint('no end', end='')"
    told = Following(kube, made(kube, "ends", program, pods=1)).end()
    [lines] = told.lines.values()
    assert lines[-2:] == ["y", "no end"]
    assert {letter for line in lines[:-2] for letter in line} == {"x"}
    assert all(len(line) <= 1 << 20 for line in lines)


def test_a_node_whose_clock_is_set_back_loses_and_repeats_nothing(
    kube: Kubernetes, cluster: KubernetesStandIn
) -> None:
    following = Following(kube, made(kube, "clock", COUNTS.format(lines=80, pause=0.02)))
    try:
        until(lambda: following.lines() >= 20)
        cluster.tell("skew", seconds=-90)
        until(lambda: following.lines() >= 60)
        cluster.tell("cut", what="log")
        until(lambda: following.lines() >= 100)
        cluster.tell("skew", seconds=-30)
        cluster.tell("cut", what="all")
        told = following.end()
    finally:
        cluster.tell("skew", seconds=0)
    assert list(told.lines.values()) == [[f"line {number}" for number in range(80)]] * 2


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(
    kube: Kubernetes, cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    following = Following(kube, made(kube, "busy", WAITS.format(file=str(go))))
    until(lambda: following.lines() == 2)
    cluster.fault(
        {"verb": "watch", "kind": "pods", "action": "error", "code": 429, "retry_after": 1},
        {"verb": "log", "kind": "pods", "action": "error", "code": 429, "retry_after": 1, "times": 2},
    )
    cluster.calls()
    begin = time.monotonic()
    cluster.tell("cut", what="all")
    go.touch()
    told = following.end()
    assert time.monotonic() - begin >= 1.0
    assert list(told.lines.values()) == [["up", "done"]] * 2
    calls = cluster.calls()
    assert calls.count("watch pods default/") in (1, 2), "what has ended meanwhile need not be watched again"
    assert sum(call.startswith("log pods default/busy") for call in calls) >= 4


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


def test_who_stops_listening_leaves_nothing_behind(kube: Kubernetes, cluster: KubernetesStandIn) -> None:
    one = made(kube, "leave", COUNTS.format(lines=10_000, pause=0.01))
    meta = one["metadata"]
    threads = set(threading.enumerate())
    followed = follow(kube.access, "default", meta["name"], meta["uid"], patience=QUICK)
    for item in followed:
        if isinstance(item, Line):
            break
    followed.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= threads
    until(lambda: cluster.inventory()["streams"] == 0)


def test_a_server_that_stays_away_is_told_once_patience_is_over(
    kube: Kubernetes, cluster: KubernetesStandIn
) -> None:
    impatient = Patience(away_s=0.3, first_pause_s=0.05, longest_pause_s=0.1)
    following = Following(kube, made(kube, "gone", "import time; time.sleep(600)"), patience=impatient)
    until(lambda: any(change.kind == JOB for change in following.told.changes))
    cluster.down()
    try:
        with pytest.raises(Unreachable):
            following.end()
    finally:
        cluster.up()


def test_what_may_not_be_seen_is_said_at_once(kube: Kubernetes, cluster: KubernetesStandIn) -> None:
    forbidden = 'jobs.batch is forbidden: User "jan" cannot list resource "jobs" in API group "batch"'
    cluster.fault(verb="list", kind="jobs", action="error", code=403, message=forbidden, times=100)
    following = Following(kube, made(kube, "may", "import time; time.sleep(600)"))
    with pytest.raises(PermissionDenied, match="ask for a Role"):
        following.end()


def test_events_that_may_not_be_seen_are_done_without(kube: Kubernetes, cluster: KubernetesStandIn) -> None:
    cluster.fault(
        verb="list", kind="events", action="error", code=403, message='User "jan" cannot', times=100
    )
    told = Following(kube, made(kube, "blind", "print('hello')")).end()
    assert sorted(told.lines.values()) == [["hello"]] * 2


def test_pods_that_are_silent_for_long_are_asked_anew_and_that_is_no_failure(
    kube: Kubernetes, cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    wary = replace(QUICK, silence_s=0.3)
    following = Following(kube, made(kube, "silent", WAITS.format(file=str(go))), patience=wary)
    until(lambda: following.lines() == 2)
    cluster.calls()
    seen: list[str] = []

    def asked_anew() -> bool:
        seen.extend(call for call in cluster.calls() if call.startswith("log pods default/silent"))
        return len(seen) >= 6

    until(asked_anew)
    go.touch()
    told = following.end()
    assert list(told.lines.values()) == [["up", "done"]] * 2
    assert [end.complete for end in told.ends] == [True] * 2
    assert told.contacts == []


def test_following_over_tls_takes_another_token_when_one_is_refused(tmp_path: Path) -> None:
    Authority().furnish(tmp_path)
    pools = [tpu_pool("np-0", *TPU.values(), hosts=4)]
    with KubernetesStandIn.started(
        tmp_path, nodes=pools, certificates=str(tmp_path), token="second"
    ) as guarded:
        asked: list[bool] = []

        def tokens(refused: bool) -> str:
            asked.append(refused)
            return "second" if refused else "first"

        access = by_endpoint("the cluster", guarded.url, (tmp_path / "ca.pem").read_text(), tokens)
        kube = Kubernetes(access)
        told = Following(kube, made(kube, "guarded", COUNTS.format(lines=20, pause=0.01))).end()
        assert list(told.lines.values()) == [[f"line {number}" for number in range(20)]] * 2
        assert asked.count(True) >= 5
        stranger = by_endpoint("the cluster", guarded.url, Authority().pem.decode(), tokens)
        with pytest.raises(Untrusted, match="certificate is not trusted"):
            next(watch(stranger, [Query(POD, "default")], QUICK))
        nobody = by_endpoint(
            "the cluster", guarded.url, (tmp_path / "ca.pem").read_text(), lambda refused: "first"
        )
        with pytest.raises(PermissionDenied, match="log in again"):
            next(watch(nobody, [Query(POD, "default")], QUICK))
