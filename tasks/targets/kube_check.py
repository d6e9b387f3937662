"""What is wrong with a JobSet before it is submitted: nobody else checks its pods until it is too late.

An API server takes a JobSet whose pods can never be made: no image, restartPolicy Always, half a chip. Its Jobs are
refused then, again and again, while it holds its queue's quota. Source: JobSet 0.11 and Kubernetes 1.36, tried.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runtime.contract.errors import Problem
from tasks.targets.kube_names import (
    Group,
    is_dns_label,
    is_dns_subdomain,
    is_env_name,
    is_label_key,
    is_label_value,
    name_problem,
)
from tasks.targets.kube_submission import Object

LARGEST = 1_000_000
"""Bytes of an object as JSON: etcd takes 1.5 MB of it, in which there must be room for what controllers add."""

_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_NAMED_PORT_MOST = 65535


def checked(jobset: Object) -> list[Problem]:
    """Returns all that an API server, JobSet or a Job's controller would refuse in a JobSet, names included."""
    return [Problem("error", None, what, fix=fix) for what, fix in _wrong(jobset)] + _name_problems(jobset)


def job_of(jobset: Object, group: str) -> Object:
    """Returns the first Job that a replicated job of a JobSet becomes, for a dry run: the server checks its pods."""
    replicated = next(each for each in jobset["spec"]["replicatedJobs"] if each["name"] == group)
    template, metadata = replicated["template"], jobset["metadata"]
    made = {"name": f"{metadata['name']}-{group}-0", **template.get("metadata", {})}
    if "namespace" in metadata:
        made["namespace"] = metadata["namespace"]
    spec = {**template["spec"], "suspend": True}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": made, "spec": spec}


def _name_problems(jobset: Object) -> list[Problem]:
    groups = [
        Group(each["name"], each.get("replicas", 1), each["template"]["spec"].get("completions", 1))
        for each in jobset["spec"].get("replicatedJobs", [])
    ]
    problem = name_problem(jobset["metadata"]["name"], groups) if groups else None
    return [problem] if problem else []


def _wrong(jobset: Object) -> Iterator[tuple[str, str]]:
    """Yields what is wrong, and what to do."""
    spec = jobset["spec"]
    if not spec.get("replicatedJobs"):
        yield "the JobSet has no jobs", "name at least one"
    for path in _nothings(jobset):
        yield f"{path} says nothing", "leave it out"
    try:
        written = len(json.dumps(jobset, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        yield "a value is no text: it holds bytes that are not UTF-8", "take them out"
        return
    if written > LARGEST:
        yield (
            f"the JobSet takes {written:,} bytes, and {LARGEST:,} are allowed",
            "give less in the environment",
        )
    yield from _metadata("the JobSet", jobset["metadata"])
    namespace = jobset["metadata"].get("namespace", "default")
    if not is_dns_label(namespace):
        yield f"{namespace!r} cannot be the name of a namespace", "use a-z, 0-9 and -, up to 63"
    for each in spec.get("replicatedJobs", []):
        for what, fix in _job(each["template"]["spec"]):
            yield f"{each['name']}: {what}", fix


def _job(job: Object) -> Iterator[tuple[str, str]]:
    template = job.get("template", {})
    pod = template.get("spec", {})
    yield from _metadata("a pod", template.get("metadata", {}))
    restart = pod.get("restartPolicy")
    if restart not in ("Never", "OnFailure"):
        yield f"restartPolicy: {restart}", "a Job's pods need Never or OnFailure"
    if job.get("podFailurePolicy") and restart != "Never":
        yield "a podFailurePolicy", "it needs restartPolicy: Never"
    for field, least in (
        ("parallelism", 0),
        ("completions", 1),
        ("backoffLimit", 0),
        ("activeDeadlineSeconds", 1),
    ):
        value = job.get(field)
        if value is not None and (not isinstance(value, int) or not least <= value < 2**31):
            yield f"{field}: {value}", f"write a whole number from {least} on"
    main, init = pod.get("containers", []), pod.get("initContainers", [])
    if not main:
        yield "a pod without containers", "name at least one"
    volumes = [volume["name"] for volume in pod.get("volumes", [])]
    yield from _each_once("volume", volumes)
    yield from _each_once("container", [each.get("name", "") for each in (*main, *init)])
    for container in (*main, *init):
        for what, fix in _container(container, volumes):
            yield f"container {container.get('name', '')!r}: {what}", fix
    for rule in job.get("podFailurePolicy", {}).get("rules", []):
        name = rule.get("onExitCodes", {}).get("containerName")
        if name and name not in [each.get("name") for each in (*main, *init)]:
            yield f"podFailurePolicy is about a container {name!r}", "name one that is there"
    yield from _pod(pod)


def _pod(pod: Object) -> Iterator[tuple[str, str]]:
    for field in ("serviceAccountName", "priorityClassName"):
        if field in pod and not is_dns_subdomain(pod[field]):
            yield f"{field}: {pod[field]!r} is no name", "use a-z, 0-9, - and ."
    for key, value in pod.get("nodeSelector", {}).items():
        if not is_label_key(key) or not is_label_value(value):
            yield (
                f"nodeSelector {key}={value!r} is no label",
                "labels have up to 63 letters, digits, -, _ and .",
            )
    for toleration in pod.get("tolerations", []):
        if "key" in toleration and not is_label_key(toleration["key"]):
            yield f"toleration {toleration['key']!r} is no taint's key", "write it as the taint has it"
    if pod.get("hostNetwork") and pod.get("dnsPolicy") != "ClusterFirstWithHostNet":
        yield (
            "hostNetwork without dnsPolicy ClusterFirstWithHostNet",
            "its siblings' names would not be found",
        )


def _container(container: Object, volumes: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not is_dns_label(container.get("name", "")):
        yield "that is no name of a container", "use a-z, 0-9 and -, up to 63"
    if not container.get("image", "").strip():
        yield "no image", "name one by image:"
    elif re.search(r"\s", container["image"]):
        yield f"image {container['image']!r}", "write it without blanks"
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in volumes:
            yield f"mounts {mount['name']!r}, which is no volume of the pod", "name one that is there"
    mounted = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
    yield from _each_once("mountPath", mounted)
    yield from _each_once("variable", [each["name"] for each in container.get("env", [])])
    for variable in container.get("env", []):
        if not is_env_name(variable["name"]):
            yield f"{variable['name']!r} is no name of a variable", "use letters, digits, _, . and -"
        if "\0" in variable.get("value", ""):
            yield f"{variable['name']} holds a NUL byte", "no environment can carry it"
    ports = [port["containerPort"] for port in container.get("ports", [])]
    yield from _each_once("port", ports)
    for port in ports:
        if not 1 <= port <= _NAMED_PORT_MOST:
            yield f"port {port}", "ports are from 1 to 65535"
    yield from _resources(container.get("resources", {}))


def _resources(resources: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for kind, amount in (*limits.items(), *requests.items()):
        if not _QUANTITY.fullmatch(str(amount)):
            yield f"{kind}: {amount!r} is no amount", "write it as 4, 500m or 64Gi"
        elif "/" in kind and not str(amount).isdecimal():
            yield f"{kind}: {amount}", "devices are whole: write 4"
    for kind in {*limits, *requests}:
        if "/" in kind and str(requests.get(kind, limits.get(kind))) != str(limits.get(kind)):
            yield (
                f"{kind}: {requests.get(kind)} asked for, {limits.get(kind)} at most",
                "devices need both the same",
            )


def _metadata(whose: str, metadata: Object) -> Iterator[tuple[str, str]]:
    for key, value in metadata.get("labels", {}).items():
        if not is_label_key(key) or not is_label_value(value):
            yield f"{whose} has a label {key}={value!r}", "labels have up to 63 letters, digits, -, _ and ."
    for key in metadata.get("annotations", {}):
        if not is_label_key(key):
            yield f"{whose} has an annotation {key!r}", "write DOMAIN/NAME"


def _each_once(noun: str, names: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{noun} {name!r} is there {count} times", "name each once"


def _nothings(value: Any, path: str = "") -> Iterator[str]:
    """Yields the paths of what is null or empty, but for empty text, which is a value."""
    if value is None or (isinstance(value, dict | list) and not value):
        yield path or "it"
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _nothings(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _nothings(each, f"{path}[{index}]")
