"""Following a JobSet when things break: streams are cut, servers away, forgetful, busy or closed, clocks set back."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import by_endpoint
from tasks.cloud.kubernetes_errors import PermissionDenied, Unreachable, Untrusted
from tasks.cloud.kubernetes_held import Held
from tasks.cloud.kubernetes_kinds import JOB, JOB_SET, POD
from tasks.cloud.kubernetes_link import Link, Patience
from tasks.cloud.kubernetes_logs import Logs
from tasks.cloud.kubernetes_told import Source
from tasks.cloud.kubernetes_watch import Change, Query, watch
from tests.cloud.authority import Authority
from tests.cloud.kubernetes.manifests import TPU, config_map
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


def test_lines_are_neither_lost_nor_repeated_when_logs_are_cut_again_and_again(
    kube: Kubernetes, followed_cluster: KubernetesStandIn
) -> None:
    following = Following(kube, made(kube, "cuts", COUNTS.format(lines=150, pause=0.01)))
    for what, lines in (("log", 10), ("all", 60), ("log", 100), ("watch", 140), ("all", 180), ("log", 220)):
        until(lambda lines=lines: following.lines() >= lines)
        followed_cluster.tell("cut", what=what)
    told = following.end()
    assert list(told.lines.values()) == [[f"line {number}" for number in range(150)]] * 2
    assert_ordered(told)
    assert all(end.complete for end in told.ends)


def test_the_api_may_be_away_while_pods_go_on(kube: Kubernetes, followed_cluster: KubernetesStandIn) -> None:
    following = Following(kube, made(kube, "away", COUNTS.format(lines=100, pause=0.01)))
    until(lambda: following.lines() >= 20)
    followed_cluster.down()
    until(lambda: following.told.contacts)
    followed_cluster.up()
    told = following.end()
    assert list(told.lines.values()) == [[f"line {number}" for number in range(100)]] * 2
    assert_ordered(told)
    assert all(end.complete for end in told.ends)
    assert [bool(text) for text in told.contacts] == [True, False]
    assert "is the cluster up" in told.contacts[0]


def test_what_a_forgetful_server_no_longer_knows_is_listed_and_compared(
    kube: Kubernetes, followed_cluster: KubernetesStandIn
) -> None:
    for name in ("stays", "changes", "goes"):
        kube.apply(config_map(name, a="1") | {"metadata": {"name": name, "namespace": "default"}})
    kind = kube.kind_of({"apiVersion": "v1", "kind": "ConfigMap"})
    # Each namespace has a ConfigMap of the cluster's own besides.
    watched = watch(kube.access, [Query(kind, "default", fields="metadata.name!=kube-root-ca.crt")], QUICK)
    changes = (one for one in watched if isinstance(one, Change))
    assert {next(changes).type for _ in range(3)} == {"ADDED"}
    followed_cluster.fault(verb="watch", kind="configmaps", action="error", code=503, times=1_000)
    followed_cluster.tell("cut", what="watch")
    kube.delete(kind, "goes")
    kube.patch(kind, "changes", {"data": {"a": "2"}})
    kube.apply(config_map("new") | {"metadata": {"name": "new", "namespace": "default"}})
    followed_cluster.tell("compact")
    followed_cluster.fault()
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


def test_a_node_whose_clock_is_set_back_loses_and_repeats_nothing(
    kube: Kubernetes, followed_cluster: KubernetesStandIn
) -> None:
    following = Following(kube, made(kube, "clock", COUNTS.format(lines=80, pause=0.02)))
    try:
        until(lambda: following.lines() >= 20)
        followed_cluster.tell("skew", seconds=-90)
        until(lambda: following.lines() >= 60)
        followed_cluster.tell("cut", what="log")
        until(lambda: following.lines() >= 100)
        followed_cluster.tell("skew", seconds=-30)
        followed_cluster.tell("cut", what="all")
        told = following.end()
    finally:
        followed_cluster.tell("skew", seconds=0)
    assert list(told.lines.values()) == [[f"line {number}" for number in range(80)]] * 2


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(
    kube: Kubernetes, followed_cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    following = Following(kube, made(kube, "busy", WAITS.format(file=str(go))))
    until(lambda: following.lines() == 2)
    followed_cluster.fault(
        {"verb": "watch", "kind": "pods", "action": "error", "code": 429, "retry_after": 1},
        {"verb": "log", "kind": "pods", "action": "error", "code": 429, "retry_after": 1, "times": 2},
    )
    followed_cluster.calls()
    begin = time.monotonic()
    followed_cluster.tell("cut", what="all")
    go.touch()
    told = following.end()
    assert time.monotonic() - begin >= 1.0
    assert list(told.lines.values()) == [["up", "done"]] * 2
    calls = followed_cluster.calls()
    assert calls.count("watch pods default/") in (1, 2), "what has ended meanwhile need not be watched again"
    assert sum(call.startswith("log pods default/busy") for call in calls) >= 4


def test_a_server_that_stays_away_is_told_once_patience_is_over(
    kube: Kubernetes, followed_cluster: KubernetesStandIn
) -> None:
    impatient = Patience(away_s=0.3, first_pause_s=0.05, longest_pause_s=0.1)
    following = Following(kube, made(kube, "gone", "import time; time.sleep(600)"), patience=impatient)
    until(lambda: any(change.kind == JOB for change in following.told.changes))
    followed_cluster.down()
    try:
        with pytest.raises(Unreachable):
            following.end()
    finally:
        followed_cluster.up()


def test_what_may_not_be_seen_is_said_at_once(kube: Kubernetes, followed_cluster: KubernetesStandIn) -> None:
    forbidden = 'jobs.batch is forbidden: User "jan" cannot list resource "jobs" in API group "batch"'
    followed_cluster.fault(verb="list", kind="jobs", action="error", code=403, message=forbidden, times=100)
    following = Following(kube, made(kube, "may", "import time; time.sleep(600)"))
    with pytest.raises(PermissionDenied, match="ask for a Role"):
        following.end()


def test_events_that_may_not_be_seen_are_done_without(
    kube: Kubernetes, followed_cluster: KubernetesStandIn
) -> None:
    followed_cluster.fault(
        verb="list", kind="events", action="error", code=403, message='User "jan" cannot', times=100
    )
    told = Following(kube, made(kube, "blind", "print('hello')")).end()
    assert sorted(told.lines.values()) == [["hello"]] * 2


def test_pods_that_are_silent_for_long_are_asked_anew_and_that_is_no_failure(
    kube: Kubernetes, followed_cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    wary = replace(QUICK, silence_s=0.3)
    following = Following(kube, made(kube, "silent", WAITS.format(file=str(go))), patience=wary)
    until(lambda: following.lines() == 2)
    followed_cluster.calls()
    seen: list[str] = []

    def asked_anew() -> bool:
        seen.extend(call for call in followed_cluster.calls() if call.startswith("log pods default/silent"))
        return len(seen) >= 6

    until(asked_anew)
    go.touch()
    told = following.end()
    assert list(told.lines.values()) == [["up", "done"]] * 2
    assert [end.complete for end in told.ends] == [True] * 2
    assert told.contacts == []


def test_a_server_that_falls_silent_is_told_and_so_is_that_it_is_back(
    kube: Kubernetes, followed_cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    attentive = replace(QUICK, pulse_s=0.2)
    following = Following(kube, made(kube, "mute", WAITS.format(file=str(go))), patience=attentive)
    until(lambda: following.lines() == 2)
    assert followed_cluster.process is not None
    followed_cluster.process.send_signal(signal.SIGSTOP)  # connections stay open, and nothing comes
    try:
        until(lambda: following.told.contacts)
    finally:
        followed_cluster.process.send_signal(signal.SIGCONT)
    until(lambda: following.told.contacts[-1] == "")
    go.touch()
    told = following.end()
    assert list(told.lines.values()) == [["up", "done"]] * 2
    # A slow machine may be silent for so long by itself, more than once.
    assert [bool(text) for text in told.contacts] == [True, False] * (len(told.contacts) // 2)
    assert "cannot see whether it answers in context standin" in told.contacts[0]


def test_a_watch_of_which_not_even_a_bookmark_comes_is_opened_anew(
    kube: Kubernetes, followed_cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    wary = replace(QUICK, watch_silence_s=0.3)
    following = Following(kube, made(kube, "deaf", WAITS.format(file=str(go))), patience=wary)
    until(lambda: following.lines() == 2)
    followed_cluster.calls()
    seen: list[str] = []

    def watched_anew() -> bool:
        seen.extend(followed_cluster.calls())
        return seen.count("watch pods default/") >= 2

    until(watched_anew)
    go.touch()
    told = following.end()
    assert not [call for call in seen if call.startswith("log ")], "logs may be silent for longer"
    assert list(told.lines.values()) == [["up", "done"]] * 2
    assert_ordered(told)


def test_a_log_that_only_its_node_does_not_give_is_told_as_such(
    kube: Kubernetes, followed_cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    following = Following(kube, made(kube, "node", WAITS.format(file=str(go)), pods=1))
    until(lambda: following.lines() == 1)
    why = "dial tcp 10.0.0.7:10250: connect: no route to host"
    followed_cluster.fault(verb="log", kind="pods", action="error", code=500, message=why, times=10_000)
    followed_cluster.tell("cut", what="log")
    until(lambda: following.told.unread)
    followed_cluster.fault()
    until(lambda: len(following.told.unread) == 2)
    go.touch()
    told = following.end()
    assert list(told.lines.values()) == [["up", "done"]]
    assert told.contacts == []
    lost, back = map(str, told.unread)
    [node] = {
        one.object["spec"]["nodeName"]
        for one in told.changes
        if one.kind == POD and one.object["spec"].get("nodeName")
    }
    assert (
        f"on node {node} cannot be read, though the cluster answers: cannot read the log of pod node-" in lost
    )
    assert lost.endswith(why) and back.endswith(f"on node {node} can be read again")


def test_a_jobset_that_is_deleted_and_kept_is_followed_no_longer(
    kube: Kubernetes, followed_cluster: KubernetesStandIn
) -> None:
    one = made(kube, "kept", "import time; time.sleep(600)", pods=1)
    kube.patch(JOB_SET, "kept", {"metadata": {"finalizers": ["example.com/keep"]}})
    following = Following(kube, one, held_s=0.2)
    kube.delete(JOB_SET, "kept")
    try:
        told = following.end()
    finally:
        kube.patch(JOB_SET, "kept", {"metadata": {"finalizers": None}})
    [held] = [item for item in told.items if isinstance(item, Held)]
    assert held.finalizers == ("example.com/keep",)


def test_of_many_logs_that_cannot_be_read_a_few_are_told() -> None:
    told: list[str] = []

    async def put(items: Sequence[Any]) -> None:
        told.extend(f"{one.source.pod} {one.why}" for one in items)

    class Group:
        def create_task(self, work: Any) -> None:
            work.close()

    logs = Logs(cast(Link, None), put, cast(asyncio.TaskGroup, Group()))
    pods = [Source(f"p{number}", "u", "c") for number in range(5)]

    async def main() -> None:
        for why in ("a", "b"):
            for one in pods:
                await logs._is_unread(one, "n", why)
        for one in pods[1:]:
            await logs._is_unread(one, "n", "")
        await logs._is_unread(pods[4], "n", "c")

    asyncio.run(main())
    assert told == ["p0 a", "p1 a", "p2 a", "p1 ", "p2 ", "p4 c"]


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
