"""The Kubernetes client makes, changes and deletes objects: nothing twice, nothing of others, whatever gets lost."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import pytest

from tasks.cloud import kubernetes_errors as errors
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_kinds import JOB_SET
from tasks.cloud.labels import labels_for
from tasks.cloud.timing import Timing
from tests.tasks.cloud.scripted_cluster import MADE, MANIFEST, MISSING, OURS, TAKEN, kube, server  # noqa: F401
from tests.tasks.cloud.scripted_server import DROP, Asked, Reply, Scripted, status


def test_creating_asks_for_strictness_and_sends_no_nulls(server: Scripted, kube: Kubernetes) -> None:
    server.answers(Reply(201, MADE))
    assert kube.create(JOB_SET, MANIFEST) == OURS
    [asked] = server.asked
    assert asked.path.endswith("/namespaces/ns/jobsets")
    assert asked.query == {"fieldManager": "slicebench", "fieldValidation": "Strict"}
    assert (asked.body["kind"], asked.body["spec"]) == ("JobSet", {})


@pytest.mark.parametrize(
    "trouble", [Reply(201, DROP), Reply(504, b"timeout"), Reply(500, b"etcd"), Reply(201, b"{cu")]
)
def test_a_create_whose_reply_was_lost_is_looked_for_and_not_made_twice(
    server: Scripted, kube: Kubernetes, trouble: Reply
) -> None:
    server.script = lambda asked: trouble if asked.method == "POST" else Reply(200, MADE)
    assert kube.create(JOB_SET, MANIFEST) == OURS
    assert [one.method for one in server.asked] == ["POST", "GET"]


def test_a_create_that_did_not_happen_is_asked_for_again_once_that_is_seen(
    server: Scripted, kube: Kubernetes
) -> None:
    def script(asked: Asked) -> Reply:
        if asked.method == "GET":
            return MISSING
        return Reply(503, b"") if len(server.asked) == 1 else Reply(201, MADE)

    server.script = script
    assert kube.create(JOB_SET, MANIFEST) == OURS
    assert [one.method for one in server.asked] == ["POST", "GET", "POST"]


def test_a_create_that_surely_did_not_happen_is_asked_for_again(server: Scripted, kube: Kubernetes) -> None:
    down = status(500, "InternalError", WEBHOOK_DOWN)
    server.answers(Reply(429, {}), down, Reply(201, MADE))
    assert kube.create(JOB_SET, MANIFEST) == OURS
    assert [one.method for one in server.asked] == ["POST"] * 3


@pytest.mark.parametrize(("first", "in_doubt"), [(Reply(503, b""), True), (Reply(429, {}), False)])
def test_a_create_that_is_refused_says_whether_a_try_before_may_happen_yet(
    server: Scripted, kube: Kubernetes, first: Reply, in_doubt: bool
) -> None:
    posts = [first, status(422, "Invalid", "no")]
    server.script = lambda asked: MISSING if asked.method == "GET" else posts.pop(0)
    with pytest.raises(errors.Refused) as told:
        kube.create(JOB_SET, MANIFEST)
    assert told.value.in_doubt is in_doubt


def test_a_create_of_another_ones_name_is_refused(server: Scripted, kube: Kubernetes) -> None:
    theirs = {
        **MADE,
        "metadata": {"name": "js", "uid": "u2", "labels": dict(labels_for("other", "abc", "eve@there"))},
    }
    server.script = lambda asked: TAKEN if asked.method == "POST" else Reply(200, theirs)
    with pytest.raises(errors.AlreadyExists, match="by eve-there's lease other"):
        kube.create(JOB_SET, MANIFEST)
    unlabelled = {**MADE, "metadata": {"name": "js", "uid": "u2"}}
    server.script = lambda asked: TAKEN if asked.method == "POST" else Reply(200, unlabelled)
    with pytest.raises(errors.AlreadyExists, match="and not by this run"):
        kube.create(JOB_SET, {"metadata": {"name": "js"}})  # two without labels are not for that the same


def test_a_create_beside_one_of_ours_that_is_going_says_so(server: Scripted, kube: Kubernetes) -> None:
    going = {**MADE, "metadata": {**MADE["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    server.script = lambda asked: TAKEN if asked.method == "POST" else Reply(200, going)
    with pytest.raises(errors.Going):
        kube.create(JOB_SET, MANIFEST)


def test_a_create_gives_up_in_time(server: Scripted) -> None:
    kube = Kubernetes(Access("context test", server.url), timing=Timing(2.0, 0.2, 0.01, 0.05))
    server.script = lambda asked: Reply(503, b"") if asked.method == "POST" else MISSING
    with pytest.raises(errors.Unavailable):
        kube.create(JOB_SET, MANIFEST)


WEBHOOK_DOWN = (
    'Internal error occurred: failed calling webhook "mjobset.kb.io": failed to call webhook: Post '
    '"https://kueue-webhook-service.kueue-system.svc:443/mutate-jobset-x-k8s-io-v1alpha2-jobset?timeout=10s": '
    "dial tcp 10.0.0.1:443: connect: connection refused"
)


def test_a_webhook_that_is_down_is_named_with_who_serves_it(server: Scripted) -> None:
    kube = Kubernetes(Access("context test", server.url), timing=Timing(2.0, 0.2, 0.01, 0.05))
    server.answers(status(500, "InternalError", WEBHOOK_DOWN))
    with pytest.raises(
        errors.WebhookDown, match="service kueue-webhook-service in namespace kueue-system runs"
    ):
        kube.create(JOB_SET, MANIFEST)


def test_what_webhooks_and_schemas_refuse_is_told_at_its_ends(server: Scripted, kube: Kubernetes) -> None:
    dump = "[]v1alpha2.ReplicatedJob{" + "x" * 5000 + "}"
    message = f'admission webhook "vjobset.kb.io" denied the request: spec.replicatedJobs: {dump}: field is immutable'
    server.answers(status(403, "Forbidden", message))
    with pytest.raises(
        errors.Refused, match="denied the request: spec.replicatedJobs.* … .*field is immutable"
    ) as told:
        kube.patch(JOB_SET, "js", {"spec": {}})
    assert len(str(told.value)) < 800
    server.answers(status(422, "Invalid", 'JobSet "js" is invalid: spec.x: Invalid value: "null"'))
    with pytest.raises(errors.Refused, match="is invalid"):
        kube.apply(MADE)
    server.answers(status(400, "BadRequest", 'strict decoding error: unknown field "spec.bogus"'))
    with pytest.raises(errors.Refused, match="unknown field"):
        kube.create(JOB_SET, MANIFEST)
    misshapen = (
        "failed to create typed patch object (d/js; x/v1, Kind=JobSet): .spec.x: field not declared in schema"
    )
    server.answers(Reply(500, {"kind": "Status", "message": misshapen, "code": 500}))
    with pytest.raises(errors.Refused, match="not declared in schema"):
        kube.apply(MADE)
    server.answers(status(403, "Forbidden", 'pods "p" is forbidden: exceeded quota: q, requested: pods=1'))
    with pytest.raises(errors.Refused, match="exceeded quota"):
        kube.create(JOB_SET, MANIFEST)


def test_a_dry_run_is_one_and_may_be_repeated(server: Scripted, kube: Kubernetes) -> None:
    server.answers(Reply(503, b""), Reply(201, MADE))
    assert kube.try_create(JOB_SET, MANIFEST) == OURS
    assert [(one.method, one.query["dryRun"]) for one in server.asked] == [("POST", "All")] * 2


def test_applying_is_said_again_after_a_lost_reply(server: Scripted, kube: Kubernetes) -> None:
    server.answers(Reply(200, DROP), Reply(200, MADE))
    assert kube.apply({**MANIFEST, "kind": "JobSet", "apiVersion": JOB_SET.api_version}) == OURS
    asked = server.asked[-1]
    assert (asked.method, asked.headers["Content-Type"]) == ("PATCH", "application/apply-patch+yaml")
    assert asked.query == {"fieldManager": "slicebench", "fieldValidation": "Strict", "force": "true"}
    assert asked.body["spec"] == {}


def test_a_patch_keeps_the_nulls_that_remove(server: Scripted, kube: Kubernetes) -> None:
    server.answers(Reply(200, MADE))
    kube.patch(JOB_SET, "js", {"metadata": {"annotations": {"a": None}}})
    assert server.asked[0].body == {"metadata": {"annotations": {"a": None}}}
    assert server.asked[0].headers["Content-Type"] == "application/merge-patch+json"
    server.answers(status(409, "Conflict", "the object has been modified", "js"))
    with pytest.raises(errors.Conflict):
        kube.patch(JOB_SET, "js", {"metadata": {"resourceVersion": "1"}})


def test_a_delete_means_the_object_that_was_seen(server: Scripted, kube: Kubernetes) -> None:
    server.script = lambda asked: (
        Reply(200, MADE) if asked.method == "GET" else Reply(200, {"kind": "Status"})
    )
    kube.delete(JOB_SET, "js", grace_s=5)
    assert server.asked[1].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1"},
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 5,
    }


def test_a_delete_of_what_is_gone_or_made_anew_is_done(server: Scripted, kube: Kubernetes) -> None:
    server.answers(MISSING)
    kube.delete(JOB_SET, "js")
    kube.delete(JOB_SET, "js", uid="u1")
    conflict = status(409, "Conflict", "the UID in the precondition does not match", "js")
    server.script = lambda asked: conflict if asked.method == "DELETE" else Reply(200, MADE)
    kube.delete(JOB_SET, "js", uid="of the one before")
    with pytest.raises(errors.Conflict):
        kube.delete(JOB_SET, "js", uid="u1")


def test_a_delete_is_asked_again_when_its_reply_was_lost(server: Scripted, kube: Kubernetes) -> None:
    server.answers(Reply(200, DROP), MISSING)
    kube.delete(JOB_SET, "js", uid="u1")
    assert [one.body["preconditions"] for one in server.asked] == [{"uid": "u1"}] * 2


def test_a_name_that_the_server_would_choose_is_not_taken(kube: Kubernetes) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        kube.create(JOB_SET, {"metadata": {"generateName": "js-"}})
