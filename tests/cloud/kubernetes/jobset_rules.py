"""What JobSet's webhook and its CRD refuse: too long names, wrong references, changes of fixed fields."""

from __future__ import annotations

import re
from typing import Any

from tests.cloud.kubernetes import refusals
from tests.cloud.kubernetes.store import Obj, copied

_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SAY_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_LONG_POD = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
_LONG_JOB = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"


def check(obj: Obj) -> None:
    """Refuses what a new JobSet may not be."""
    told = [*_names(obj), *_references(obj)]
    if told:
        text = told[0] if len(told) == 1 else "[" + ", ".join(told) + "]"
        raise refusals.denied("vjobset.kb.io", text)


def _names(obj: Obj) -> list[str]:
    name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "") + "xxxxx"
    jobs = obj["spec"].get("replicatedJobs") or []
    told: list[str] = []
    if not _DNS1035.fullmatch(name):
        told.append(_SAY_1035)
    seen = [one["name"] for one in jobs]
    if len(set(seen)) != len(seen):
        twice = next(one for one in seen if seen.count(one) > 1)
        at = len(seen) - 1 - seen[::-1].index(twice)
        why = f'Duplicate value: {{"name":"{twice}"}}'
        raise refusals.invalid(
            "JobSet", "jobset.x-k8s.io", name, [(f"spec.replicatedJobs[{at}]", "FieldValueDuplicate", why)]
        )
    for one in jobs:
        spec = one["template"]["spec"]
        # replicas 0 makes the highest index -1, as the real webhook computes it
        longest = f"{name}-{one['name']}-{one['replicas'] - 1}"
        if len(longest) > 63:
            told.append(_LONG_JOB)
            continue
        indexed = spec.get("completions") is not None and spec["completionMode"] == "Indexed"
        if indexed and len(f"{longest}-{spec['completions'] - 1}-abcde") > 63:
            told.append(_LONG_POD)
    return told


def _references(obj: Obj) -> list[str]:
    spec = obj["spec"]
    jobs: dict[str, Any] = {one["name"]: one for one in spec.get("replicatedJobs") or []}
    told = []
    for target in (spec.get("successPolicy") or {}).get("targetReplicatedJobs") or []:
        if target not in jobs:
            told.append(f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs")
    for rule in (spec.get("failurePolicy") or {}).get("rules") or []:
        for target in rule.get("targetReplicatedJobs") or []:
            if target not in jobs:
                told.append(
                    f"invalid replicatedJob name '{target}' in failure policy does not appear in .spec.ReplicatedJobs"
                )
    if where := spec.get("coordinator"):
        told += _coordinator(obj, where, jobs)
    return told


def _coordinator(obj: Obj, where: dict[str, Any], jobs: dict[str, Any]) -> list[str]:
    job = jobs.get(where["replicatedJob"])
    if job is None:
        return [f"coordinator replicatedJob {where['replicatedJob']} does not exist"]
    if where.get("jobIndex", 0) >= job["replicas"]:
        return [f"coordinator job index {where['jobIndex']} is invalid for replicatedJob {job['name']}"]
    completions = job["template"]["spec"].get("completions")
    if completions is None or where.get("podIndex", 0) >= completions:
        return [
            f"coordinator pod index {where.get('podIndex', 0)} is invalid for replicatedJob {job['name']}"
        ]
    text = coordinator(obj)
    if len(text) > 63:
        return [f"must be no more than 63 characters: {text}"]
    return []


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
            why = 'Invalid value: "object": Value is immutable'
            raise refusals.invalid(
                "JobSet",
                "jobset.x-k8s.io",
                obj["metadata"]["name"],
                [(f"spec.{field}", "FieldValueInvalid", why)],
            )
    jobs, before = copied(new["replicatedJobs"]), copied(was["replicatedJobs"])
    if new.get("suspend") or was.get("suspend"):
        for one in (*jobs, *before):
            template = one["template"]["spec"]["template"]
            template.pop("metadata", None)
            for field in ("nodeSelector", "tolerations", "schedulingGates"):
                template.get("spec", {}).pop(field, None)
    if jobs != before:
        raise refusals.denied(
            "vjobset.kb.io",
            f"spec.replicatedJobs: Invalid value: {new['replicatedJobs']}: field is immutable",
        )
