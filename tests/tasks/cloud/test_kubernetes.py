"""The Kubernetes client: what it asks, when it asks again, and what it makes of answers that are none."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import logging
import threading
import time
from email.utils import formatdate

import pytest

from tasks.cloud import kubernetes_errors as errors
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_kinds import ALL_NAMESPACES, JOB_SET, NODE, POD, SECRET, WORKLOAD, Kind
from tasks.cloud.timing import Timing
from tests.tasks.cloud.scripted_cluster import MADE, MANIFEST, MISSING, OURS, QUICK, kube, server  # noqa: F401
from tests.tasks.cloud.scripted_server import DROP, Asked, Reply, Scripted, scripted, status
from tests.waiting import PATIENCE_S


def test_paths_are_those_of_the_api() -> None:
    assert POD.path("a") == "/api/v1/namespaces/a/pods"
    assert POD.path("a", "p", "log") == "/api/v1/namespaces/a/pods/p/log"
    assert POD.path(ALL_NAMESPACES) == "/api/v1/pods"
    assert NODE.path(None, "n") == "/api/v1/nodes/n"
    assert WORKLOAD.path("a", "w") == "/apis/kueue.x-k8s.io/v1beta2/namespaces/a/workloads/w"
    assert POD.path("a", "../x") == "/api/v1/namespaces/a/pods/..%2Fx"


def test_an_object_comes_without_its_managers_notes(server: Scripted, kube: Kubernetes) -> None:
    server.answers(Reply(200, MADE))
    assert kube.get(JOB_SET, "js") == OURS
    assert server.calls == ["GET /apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/js"]
    assert server.asked[0].headers["User-Agent"] == "slicebench"


def test_what_is_not_there_is_told_from_a_kind_that_is_not_served(server: Scripted, kube: Kubernetes) -> None:
    server.answers(MISSING)
    assert kube.find(JOB_SET, "js") is None
    with pytest.raises(
        errors.NotFound, match='cannot look at JobSet js in context test: jobsets "js" not found'
    ):
        kube.get(JOB_SET, "js")
    server.answers(Reply(404, b"404 page not found\n"))
    with pytest.raises(errors.NotServed, match="JobSet and Kueue are not part of Kubernetes itself"):
        kube.find(JOB_SET, "js")


@pytest.mark.parametrize("header", ["Date", "date"])
@pytest.mark.parametrize("ahead_s", [-7200, 7200])
def test_what_time_it_is_in_the_cluster_is_heard_from_its_answers(
    server: Scripted, kube: Kubernetes, ahead_s: int, header: str
) -> None:
    server.answers(Reply(200, MADE, {header: formatdate(time.time() + ahead_s, usegmt=True)}))
    kube.get(JOB_SET, "js")
    assert kube.now() - time.time() == pytest.approx(ahead_s, abs=10)
    server.answers(Reply(200, MADE))
    kube.get(JOB_SET, "js")
    assert kube.now() - time.time() == pytest.approx(ahead_s, abs=10), (
        "one that says nothing leaves it as it was"
    )
    server.answers(Reply(200, MADE, {header: "yesterday"}))
    kube.get(JOB_SET, "js")
    assert kube.now() == pytest.approx(time.time(), abs=10)


def test_lists_are_read_page_by_page_and_their_objects_are_complete(
    server: Scripted, kube: Kubernetes
) -> None:
    first = {"metadata": {"resourceVersion": "7", "continue": "c1"}, "items": [{"metadata": {"name": "a"}}]}
    second = {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "b"}}]}
    server.answers(Reply(200, first), Reply(200, second))
    found = kube.list(POD, labels={"x": "1", "y": "2"}, fields="status.phase=Running")
    assert ([one["metadata"]["name"] for one in found.items], found.version) == (["a", "b"], "7")
    assert {(one["kind"], one["apiVersion"]) for one in found.items} == {("Pod", "v1")}
    assert server.asked[1].query == {
        "limit": "500",
        "labelSelector": "x=1,y=2",
        "fieldSelector": "status.phase=Running",
        "continue": "c1",
    }


def test_a_list_whose_next_page_expired_begins_again(server: Scripted, kube: Kubernetes) -> None:
    first = {"metadata": {"resourceVersion": "7", "continue": "c1"}, "items": [{"metadata": {"name": "a"}}]}
    whole = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "b"}}]}
    server.answers(Reply(200, first), status(410, "Expired", "too old"), Reply(200, whole))
    found = kube.list(POD)
    assert ([one["metadata"]["name"] for one in found.items], found.version) == (["b"], "9")


def test_a_list_that_never_comes_to_its_end_is_given_up(server: Scripted, kube: Kubernetes) -> None:
    first = Reply(200, {"metadata": {"resourceVersion": "7", "continue": "c1"}, "items": []})
    server.answers(*[first, status(410, "Expired", "too old")] * 5, Reply(200, {"metadata": {}, "items": []}))
    with pytest.raises(errors.Expired):
        kube.list(POD)


@pytest.mark.parametrize(
    "trouble",
    [
        status(429, "TooManyRequests", "slow down"),
        Reply(503, b"draining"),
        Reply(502, b"<html>"),
        Reply(200, DROP),
        Reply(200, b"{cut"),
    ],
)
def test_a_read_is_repeated_while_there_is_hope(server: Scripted, kube: Kubernetes, trouble: Reply) -> None:
    server.answers(trouble, trouble, Reply(200, MADE))
    assert kube.get(JOB_SET, "js") == OURS
    assert len(server.asked) == 3


def test_a_read_is_left_alone_for_as_long_as_the_server_asks(
    server: Scripted, kube: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("tasks.cloud.kubernetes_transport.time.sleep", slept.append)
    server.answers(Reply(429, {}, {"Retry-After": "3"}), Reply(200, MADE))
    kube.get(JOB_SET, "js")
    assert slept == [3.0]
    server.answers(Reply(429, {}, {"Retry-After": "3000"}))  # longer than all tries may take
    with pytest.raises(errors.Throttled):
        kube.get(JOB_SET, "js")


def test_a_read_that_is_refused_is_not_repeated(server: Scripted, kube: Kubernetes) -> None:
    server.answers(status(403, "Forbidden", 'pods is forbidden: User "jan" cannot list resource "pods"'))
    with pytest.raises(errors.PermissionDenied, match="ask for a Role"):
        kube.list(POD)
    server.answers(status(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(errors.PermissionDenied, match="log in again"):
        kube.list(POD)
    assert len(server.asked) == 2


def test_kinds_that_we_do_not_know_are_asked_about(server: Scripted, kube: Kubernetes) -> None:
    resources = {
        "resources": [
            {"name": "widgets/status", "kind": "Widget", "namespaced": True},
            {"name": "widgets", "kind": "Widget", "namespaced": False},
        ]
    }
    server.answers(Reply(200, resources))
    found = kube.kind_of({"apiVersion": "x.io/v2", "kind": "Widget"})
    assert found == Kind("x.io", "v2", "Widget", "widgets", namespaced=False)
    assert kube.kind_of(MADE) == JOB_SET
    with pytest.raises(errors.NotServed):
        kube.kind_of({"apiVersion": "x.io/v2", "kind": "Gadget"})
    assert server.calls == ["GET /apis/x.io/v2"] * 2


def test_whether_a_kind_is_served(server: Scripted, kube: Kubernetes) -> None:
    server.answers(Reply(200, {"resources": [{"name": "jobsets", "kind": "JobSet"}]}))
    assert kube.serves(JOB_SET)
    assert not kube.serves(WORKLOAD)
    server.answers(Reply(404, b"404 page not found"))
    assert not kube.serves(JOB_SET)


def test_whether_we_may(server: Scripted, kube: Kubernetes) -> None:
    server.answers(Reply(201, {"status": {"allowed": True}}), Reply(201, {"status": {"allowed": False}}))
    assert kube.may("create", JOB_SET)
    assert not kube.may("get", POD, sub="log")
    assert server.asked[0].body["spec"]["resourceAttributes"] == {
        "verb": "create",
        "group": "jobset.x-k8s.io",
        "resource": "jobsets",
        "namespace": "ns",
    }
    assert server.asked[1].body["spec"]["resourceAttributes"]["subresource"] == "log"


def test_logs_are_text(server: Scripted, kube: Kubernetes) -> None:
    server.answers(Reply(200, b"one\n\xff two\n"))
    assert kube.log("p", container="c", tail=10, previous=True, timestamps=True) == "one\n\ufffd two\n"
    assert server.asked[0].query == {
        "container": "c",
        "tailLines": "10",
        "previous": "true",
        "timestamps": "true",
    }
    waiting = 'container "c" in pod "p" is waiting to start: ContainerCreating'
    server.answers(status(400, "BadRequest", waiting))
    with pytest.raises(errors.Refused, match="waiting to start"):
        kube.log("p")


def test_nobody_there_is_unreachable_and_nothing_happened() -> None:
    with scripted() as gone:
        pass
    kube = Kubernetes(Access("context test", gone.url), timing=Timing(1.0, 0.1, 0.01, 0.05))
    with pytest.raises(errors.Unreachable, match="context test .http://127.0.0.1:.*is the cluster up"):
        kube.get(JOB_SET, "js")
    with pytest.raises(errors.NotDone):
        kube.create(JOB_SET, MANIFEST)


def test_a_server_that_does_not_answer_costs_no_more_than_its_time(server: Scripted) -> None:
    release = threading.Event()
    kube = Kubernetes(Access("context test", server.url), timing=Timing(0.1, 0.3, 0.01, 0.05))

    def stall(asked: Asked) -> Reply:
        release.wait(PATIENCE_S)
        return Reply(200, MADE)

    server.script = stall
    try:
        with pytest.raises(errors.Unavailable, match="no answer in time") as told:
            kube.get(JOB_SET, "js")
        assert not isinstance(told.value, errors.NotDone)
    finally:
        release.set()


def test_a_token_that_is_refused_is_exchanged_once(server: Scripted) -> None:
    tokens: list[bool] = []

    def token(refused: bool) -> str:
        tokens.append(refused)
        return "new" if refused else "old"

    kube = Kubernetes(Access("context test", server.url, tokens=token), timing=QUICK)
    server.script = lambda asked: (
        Reply(200, MADE)
        if asked.headers["Authorization"] == "Bearer new"
        else status(401, "Unauthorized", "no")
    )
    assert kube.get(JOB_SET, "js") == OURS
    assert tokens == [False, True]
    server.answers(status(401, "Unauthorized", "no"))
    with pytest.raises(errors.PermissionDenied):
        kube.get(JOB_SET, "js")
    assert len(server.asked) == 4


def test_calls_are_told_without_what_they_carry(server: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    kube = Kubernetes(Access("context test", server.url, tokens=lambda refused: "t0ken"), timing=QUICK)
    server.answers(Reply(201, MADE, {"Warning": '299 - "v1beta1 is deprecated"'}))
    with caplog.at_level(logging.DEBUG, logger="slicebench.calls"):
        kube.create(SECRET, {"metadata": {"name": "s"}, "stringData": {"TOKEN": "hunter2"}}, "ns")
    assert (
        'kubernetes: make Secret s (context test): 201, warning: 299 - "v1beta1 is deprecated"' in caplog.text
    )
    assert "hunter2" not in caplog.text and "t0ken" not in caplog.text
