"""What JobSet's webhook and its CRD refuse: too long names, wrong references, changes of fixed fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from tests.cloud.kubernetes import refusals
from tests.cloud.kubernetes.store import Obj, copied

_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SAY_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_RULE = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_SAY_RULE = (
    "a failure policy rule name must start with an alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
)
_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
Cause = tuple[str, str, str]
"""Field, reason, message."""
_LONG_POD = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
_LONG_JOB = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"


def check(obj: Obj) -> None:
    """Refuses what a new JobSet may not be."""
    told = [*_network(obj), *_names(obj), *_references(obj)]
    if told:
        name = obj["metadata"].get("name", "")
        refused = refusals.invalid("JobSet", "jobset.x-k8s.io", name, told)
        raise refusals.invalid_by("vjobset.kb.io", refused)


def _told(why: str) -> Cause:
    """Returns what is said of no field: the webhook takes it for an error of its own."""
    return ("<nil>", "InternalError", f"Internal error: {why}")


def _wrong(field: str, value: str, why: str) -> Cause:
    return (field, "FieldValueInvalid", f'Invalid value: "{value}": {why}')


def _network(obj: Obj) -> Iterator[Cause]:
    spec, field = obj["spec"], "spec.network.subdomain"
    if (spec.get("replicatedJobs") or [{}])[0].get("dependsOn"):
        yield _told("DependsOn can't be set for the first ReplicatedJob")
    subdomain = (spec.get("network") or {}).get("subdomain")
    if subdomain and len(subdomain) > 63:
        yield _wrong(field, subdomain, ".spec.network.subdomain is too long, must be less than 63 characters")
    elif subdomain and not _DNS1035.fullmatch(subdomain):
        yield _wrong(field, subdomain, _SAY_1035)


def _names(obj: Obj) -> Iterator[Cause]:
    name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "") + "xxxxx"
    seen: set[str] = set()
    for number, one in enumerate(obj["spec"].get("replicatedJobs") or []):
        spec, field = one["template"]["spec"], f"spec.replicatedJobs[{number}].name"
        # replicas 0 makes the highest index -1, as the real webhook computes it
        longest = f"{name}-{one['name']}-{one['replicas'] - 1}"
        indexed = spec.get("completions") is not None and spec["completionMode"] == "Indexed"
        pod = f"{longest}-{spec['completions'] - 1}-abcde" if indexed else ""
        for whole, too_long in ((longest, _LONG_JOB), (pod, _LONG_POD)):
            if len(whole) > 63:
                yield _wrong(field, longest, too_long)
            elif whole and not _DNS1035.fullmatch(whole):
                yield _wrong(field, longest, _SAY_1035)
        seen.add(one["name"])
        for before in one.get("dependsOn") or []:
            if before["name"] not in seen:
                yield _told(f"replicatedJob: {one['name']} cannot depend on replicatedJob: {before['name']}")


def _references(obj: Obj) -> Iterator[Cause]:
    spec = obj["spec"]
    jobs: dict[str, Any] = {one["name"]: one for one in spec.get("replicatedJobs") or []}
    for target in (spec.get("successPolicy") or {}).get("targetReplicatedJobs") or []:
        if target not in jobs:
            yield _told(f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs")
    for rule in (spec.get("failurePolicy") or {}).get("rules") or []:
        if not _RULE.fullmatch(rule["name"]):
            yield _told(f"invalid failure policy rule name '{rule['name']}', {_SAY_RULE}")
        for target in rule.get("targetReplicatedJobs") or []:
            if target not in jobs:
                why = "in failure policy does not appear in .spec.ReplicatedJobs"
                yield _told(f"invalid replicatedJob name '{target}' {why}")
        for reason in rule.get("onJobFailureReasons") or []:
            if reason not in _REASONS:
                why = "in failure policy is not a recognized job failure reason"
                yield _told(f"invalid job failure reason '{reason}' {why}")
    if where := spec.get("coordinator"):
        yield from map(_told, _coordinator(obj, where, jobs))


def _coordinator(obj: Obj, where: dict[str, Any], jobs: dict[str, Any]) -> Iterator[str]:
    job, index, text = jobs.get(where["replicatedJob"]), where.get("jobIndex", 0), coordinator(obj)
    if job is None:
        yield f"coordinator replicatedJob {where['replicatedJob']} does not exist"
    elif index >= job["replicas"]:
        yield f"coordinator job index {index} is invalid for replicatedJob {job['name']}"
    elif job["template"]["spec"].get("completions") is None:
        yield "job for coordinator pod must be indexed completion mode, and completions number must be set"
    elif where.get("podIndex", 0) >= job["template"]["spec"]["completions"]:
        told = f"coordinator pod index {where['podIndex']} is invalid for replicatedJob {job['name']}"
        yield f"{told} job index {index}"
    if len(text) > 63:
        yield (
            f'spec will lead to invalid label value "{text}" for coordinator label "jobset.sigs.k8s.io/coordinator" '
            "(long JobSet / ReplicatedJob / SubDomain name?): must be no more than 63 bytes"
        )


def coordinator(obj: Obj) -> str:
    """Returns the address of a JobSet's coordinator, empty where it has none."""
    where = obj["spec"].get("coordinator")
    if not where:
        return ""
    name = obj["metadata"].get("name", "")
    pod = f"{name}-{where['replicatedJob']}-{where.get('jobIndex', 0)}-{where.get('podIndex', 0)}"
    return f"{pod}.{subdomain(obj)}"


def subdomain(obj: Obj) -> str:
    """Returns the name of a JobSet's headless service."""
    return str(obj["spec"].get("network", {}).get("subdomain") or obj["metadata"].get("name", ""))


def check_update(obj: Obj, old: Obj) -> None:
    """Refuses changes of fields that are fixed; a suspended JobSet's pods may get other labels and selectors."""
    new, was = obj["spec"], old["spec"]
    for field in ("failurePolicy", "successPolicy", "startupPolicy", "network", "coordinator", "managedBy"):
        if new.get(field) != was.get(field):
            name, why = obj["metadata"]["name"], "Invalid value: Value is immutable"
            causes = [(f"spec.{field}", "FieldValueInvalid", why)]
            raise refusals.invalid("JobSet", "jobset.x-k8s.io", name, causes)
    jobs, before = copied(new["replicatedJobs"]), copied(was["replicatedJobs"])
    if new.get("suspend") or was.get("suspend"):
        for one in (*jobs, *before):
            template = one["template"]["spec"]["template"]
            template.pop("metadata", None)
            for field in ("nodeSelector", "tolerations", "schedulingGates"):
                template.get("spec", {}).pop(field, None)
    if jobs != before:
        told = f"Invalid value: {orjson.dumps(new['replicatedJobs']).decode()}: field is immutable"
        causes = [("spec.replicatedJobs", "FieldValueInvalid", told)]
        refused = refusals.invalid("JobSet", "jobset.x-k8s.io", obj["metadata"]["name"], causes)
        raise refusals.invalid_by("vjobset.kb.io", refused)
