"""What must never come out of a bundle about a workload, wherever in objects, events and logs it stands."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import pytest

from runtime.contract.redaction import REDACTED
from tasks.stages.workload_redaction import BundleRedaction

SECRET = "hunter2-is-long"


def pod(**more: Any) -> dict[str, Any]:
    env = [{"name": "API_TOKEN", "value": SECRET}, {"name": "A", "value": "b"}]
    container = {"name": "c", "image": "r/i:1", "env": env}
    return {"kind": "Pod", "metadata": {"name": "p", **more}, "spec": {"containers": [container]}}


def shown(*objects: Any) -> str:
    redaction = BundleRedaction(objects)
    return json.dumps([redaction.object(one) for one in objects])


COPY = json.dumps(pod())
MANAGED = [{"manager": "kubectl", "fieldsV1": {"f:spec": {f'v:"{SECRET}"': {}}}}]
HIDDEN = {
    "a variable": pod(),
    "an annotation that repeats the object": pod(annotations={"tools.example.com/original": COPY}),
    "a copy in a copy": pod(annotations={"x": json.dumps({"spec": {"annotations": {"y": COPY}}})}),
    "kubectl's copy": pod(annotations={"kubectl.kubernetes.io/last-applied-configuration": COPY}),
    "managed fields": pod(managedFields=MANAGED),
    "an annotation of that name": {"metadata": {"annotations": {"me.example.com/api-token": SECRET}}},
    "a label of that name": {"metadata": {"labels": {"password": SECRET}}},
    "a volume": {"volumes": [{"csi": {"volumeAttributes": {"authToken": "x", "auth-token": SECRET}}}]},
    "a header of a probe": {"httpHeaders": [{"name": "Authorization", "value": f"Basic {SECRET}"}]},
    "a flag": {"args": ["--steps", "3", f"--api-key={SECRET}"]},
    "a flag and its value": {"command": ["run", "--password", SECRET, "--steps", "3"]},
    "a flag and its value in a line": {
        "command": ["bash", "-c", f"python t.py --api-token {SECRET} --steps 3"]
    },
    "a flag and words in quotes": {
        "args": ["-c", "run --password 'so hunter2 is' && run --key=\"a hunter2\""]
    },
    "a flag and its value in a message": {
        "kind": "Event",
        "message": f"['run', '--token', '{SECRET}'] failed",
    },
    "a login, again without its URL": [
        {"env": [{"name": "DB", "value": f"postgres://me:{SECRET}@h/d"}], "message": f"as me with {SECRET}"}
    ],
    "a value of a line, again by itself": {"args": [f"TOKEN={SECRET} run"], "message": f"for {SECRET}"},
    "a line of shell": {"command": ["bash", "-c", f"export HF_TOKEN={SECRET} && python train.py"]},
    "a message of an event": {"kind": "Event", "message": f"exec failed: TOKEN={SECRET}"},
    "a message of a pod's end": {"terminated": {"message": f"Traceback\n  login(password='{SECRET}')\n"}},
}


@pytest.mark.parametrize("where", HIDDEN)
def test_a_secret_in_an_object_does_not_come_out(where: str) -> None:
    assert "hunter2" not in shown(HIDDEN[where])


@pytest.mark.parametrize(
    "text",
    [
        f"the token is {SECRET}!",
        f"TOKEN={SECRET}",
        "in base64: aHVudGVyMi1pcy1sb25n",
        "in a URL: https://me:hunter2@registry.example.com/i",
        "hf_token: hunter2",
        'env {"WANDB_API_KEY": "hunter2", "A": "b"}',
        "config.db_password = 'hunter2'",
        "Authorization: Bearer hunter2hunter2",
        "using hf_hunter2hunter2hunter2",
        "ghp_hunter2hunter2hunter2hunter2",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nhunter2, and the log ends",
    ],
)
def test_a_secret_in_a_log_does_not_come_out(text: str) -> None:
    told = BundleRedaction([pod()]).text(text)
    assert "hunter2" not in told and "aHVudGVy" not in told
    assert REDACTED in told


@pytest.mark.parametrize(
    "value", ["pw:7", "two words", "one\nof three\nlines", "ümlaut/?&", f"//u:{SECRET}@h"]
)
@pytest.mark.parametrize(
    "form",
    [
        str, quote_plus, json.dumps, repr, lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    ],
)  # fmt: skip
def test_what_a_secret_of_the_cluster_holds_does_not_come_out(value: str, form: Callable[[str], str]) -> None:
    shown = BundleRedaction([], values=[value]).text(f"it is {form(value)}, see")
    assert (
        REDACTED in shown and len(shown.replace(REDACTED, "")) <= len("it is , see") + 3
    )  # quotes, a padding


def test_a_secret_torn_by_the_lines_of_base64_does_not_come_out() -> None:
    lines = base64.encodebytes(f"{'A=b ' * 12}PW=over two lines\n{'C=d ' * 40}".encode()).decode()
    told = BundleRedaction([], values=["over two lines"]).text(f"env:\n{lines}bye")
    assert told.startswith("env:\nQT1i") and told.endswith("bye") and told.count(REDACTED) == 1
    assert len(told) < len(lines) and BundleRedaction([], values=["elsewhere"]).text(lines) == lines


def test_what_cannot_be_read_is_known_by_the_names_of_its_variables() -> None:
    redaction = BundleRedaction([], names=["MINE", "ALL"])
    told = redaction.text("MINE=a b c\nMINED=d\nwith MINE: 'e f' and ALL=g h\nthe $MINE of it")
    assert told == "MINE=(redacted)\nMINED=d\nwith MINE: '(redacted)' and ALL=(redacted) h\nthe $MINE of it"


@pytest.mark.parametrize(
    "text",
    [
        'run --token $HF_TOKEN --password "${PW}" --key --steps 3',
        "step 3: loss=2.5, max_tokens=2048, tokens_per_second=1000.5",
        "key: params/layer_0/kernel",
        "tokens: <bos> a b",
        "coordinator address: w-s-0-0.w:8080",
    ],
)
def test_what_is_no_secret_stays_in_logs(text: str) -> None:
    assert BundleRedaction([pod()]).text(text) == text


def test_what_is_no_secret_stays_in_objects() -> None:
    kept = {
        "metadata": {
            "labels": {"jobset.sigs.k8s.io/job-key": "a41f", "app": "train"},
            "annotations": {"example.com/plan": "not { JSON"},
        },
        "spec": {
            "tolerations": [{"key": "google.com/tpu", "operator": "Exists"}],
            "volumes": [{"secret": {"secretName": "w-env"}}],
            "automountServiceAccountToken": False,
            "env": [
                {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "w-env", "key": "HF_TOKEN"}}}
            ],
            "args": ["--steps", "3", "--keys", "--out=gs://b/o"],
        },
        "status": {"message": "0/3 nodes are available: 3 node(s) had untolerated taint {google.com/tpu: x}"},
    }
    assert BundleRedaction([kept]).object(kept) == kept
