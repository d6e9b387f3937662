"""What would be refused once it is too late is refused before: templates that an API server takes within a JobSet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tasks.targets.kube_check import checked
from tasks.targets.kube_submission import Object
from tests.tasks.targets.kube_made import job_of, made, main_of, pod_of


def told(change: Callable[[Object], Any]) -> str:
    """Returns what is said of a JobSet after a change of it."""
    jobset = made()
    assert checked(jobset) == []
    change(jobset)
    return "; ".join(str(problem) for problem in checked(jobset))


def spec(jobset: Object) -> Object:
    found: Object = pod_of(jobset)["spec"]
    return found


def limits(jobset: Object) -> Object:
    found: Object = main_of(jobset)["resources"]
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda js: main_of(js).pop("image"), "slice-job: container 'worker': no image"),
        (lambda js: main_of(js).update(image=" "), "no image"),
        (lambda js: main_of(js).update(image="a b"), "image 'a b', write it without blanks"),
        (lambda js: spec(js).update(restartPolicy="Always"), "restartPolicy: Always, a Job's pods need Never"),
        (lambda js: spec(js).pop("restartPolicy"), "restartPolicy: None"),
        (lambda js: spec(js).update(restartPolicy="OnFailure"), "a podFailurePolicy, it needs restartPolicy: Never"),
        (lambda js: limits(js)["limits"].update({"google.com/tpu": "1.5"}), "google.com/tpu: 1.5, devices are whole"),
        (lambda js: limits(js)["limits"].update({"google.com/tpu": 1.5}), "devices are whole"),
        (lambda js: limits(js)["limits"].update({"memory": "1 GB"}), "memory: '1 GB' is no amount"),
        (lambda js: limits(js).update(requests={"google.com/tpu": 2}), "2 asked for, 4 at most"),
        (lambda js: spec(js).update(containers=[]), "a pod without containers"),
        (lambda js: main_of(js).update(name="A_b"), "no name of a container"),
        (lambda js: spec(js)["containers"].append(dict(main_of(js))), "container 'worker' is there 2 times"),
        (lambda js: spec(js).pop("volumes"), "mounts 'dshm', which is no volume"),
        (lambda js: main_of(js)["env"].append({"name": "1 A", "value": ""}), "'1 A' is no name of a variable"),
        (lambda js: main_of(js)["env"].append({"name": "A", "value": "\0"}), "A holds a NUL byte"),
        (lambda js: main_of(js)["env"].append(dict(main_of(js)["env"][0])), "is there 2 times"),
        (lambda js: main_of(js)["env"].append({"name": "A", "value": "\udcff"}), "bytes that are not UTF-8"),
        (lambda js: main_of(js)["env"].append({"name": "A", "value": "x" * 1_000_000}), "and 1,000,000 are allowed"),
        (lambda js: main_of(js).update(ports=[{"containerPort": 0}]), "port 0"),
        (lambda js: main_of(js).update(ports=[{"containerPort": 1}] * 2), "port 1 is there 2 times"),
        (lambda js: spec(js).update(serviceAccountName="A"), "serviceAccountName: 'A' is no name"),
        (lambda js: spec(js).update(priorityClassName="very high"), "priorityClassName: 'very high' is no name"),
        (lambda js: spec(js)["nodeSelector"].update({"a b": "c"}), "nodeSelector a b='c' is no label"),
        (lambda js: spec(js)["nodeSelector"].update({"a": "c" * 64}), "is no label"),
        (lambda js: spec(js)["tolerations"].append({"key": "a b"}), "toleration 'a b'"),
        (lambda js: spec(js).pop("dnsPolicy"), "hostNetwork without dnsPolicy"),
        (lambda js: spec(js).update(affinity=None), "affinity says nothing, leave it out"),
        (lambda js: js["metadata"].update(labels={}), "metadata.labels says nothing"),
        (lambda js: js["metadata"].update(labels={"a": "b c"}), "the JobSet has a label a='b c'"),
        (lambda js: js["metadata"].update(namespace="A"), "'A' cannot be the name of a namespace"),
        (lambda js: js["metadata"].update(name="a" * 44), "has 44 characters, and at most 43 are allowed"),
        (lambda js: js["metadata"].update(name="1a"), "'1a' cannot be the name of a JobSet"),
        (lambda js: js["spec"].update(replicatedJobs=[]), "the JobSet has no jobs"),
        (lambda js: job_of(js).update(activeDeadlineSeconds=0), "activeDeadlineSeconds: 0, write a whole number"),
        (lambda js: job_of(js).update(parallelism=2.5), "parallelism: 2.5"),
        (
            lambda js: job_of(js)["podFailurePolicy"]["rules"][1]["onExitCodes"].update(containerName="other"),
            "podFailurePolicy is about a container 'other'",
        ),
    ],
)  # fmt: skip
def test_what_would_never_start_is_told_with_its_place(change: Callable[[Object], Any], words: str) -> None:
    assert words in told(change)
