"""What the API server calls wrong in pods, in the pods of Jobs, and in Jobs themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.cloud.kubernetes import quantities
from tests.cloud.kubernetes.store import Obj

Cause = tuple[str, str, str]
"""Field, reason, message."""
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SAY_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SAY_RESTART = 'Required value: valid values: "OnFailure", "Never"'
_FREE = ("image",)
"""What may change in the containers of a pod that is there."""
_SAY_FIXED = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _required(field: str) -> Cause:
    return (field, "FieldValueRequired", "Required value")


def _invalid(field: str, value: Any, why: str) -> Cause:
    told = value if isinstance(value, int) else f'"{value}"'
    return (field, "FieldValueInvalid", f"Invalid value: {told}: {why}")


def _unsupported(field: str, value: Any, *allowed: str) -> Cause:
    listed = ", ".join(f'"{one}"' for one in allowed)
    return (field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}')


def pod_causes(spec: dict[str, Any], at: str) -> list[Cause]:
    """Returns what is wrong with a pod's specification."""
    return list(_pod(spec, at))


def _pod(spec: dict[str, Any], at: str) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield _required(f"{at}.containers")
    volumes = {one.get("name") for one in spec.get("volumes") or ()}
    names: set[str] = set()
    for kind in ("initContainers", "containers"):
        for number, one in enumerate(spec.get(kind) or []):
            yield from _container(one, f"{at}.{kind}[{number}]", names, volumes)
            names.add(one.get("name", ""))
    for number, one in enumerate(spec.get("initContainers") or []):
        restarts = one.get("restartPolicy")
        if restarts not in (None, "Always", "Never", "OnFailure"):
            where = f"{at}.initContainers[{number}].restartPolicy"
            yield _unsupported(where, restarts, "Always", "Never", "OnFailure")
    for number, one in enumerate(spec.get("tolerations") or []):
        if one.get("operator") not in (None, "Equal", "Exists"):
            yield _unsupported(f"{at}.tolerations[{number}].operator", one["operator"], "Equal", "Exists")
    policy = spec.get("restartPolicy")
    if policy not in (None, "Always", "OnFailure", "Never"):
        yield _unsupported(f"{at}.restartPolicy", policy, "Always", "OnFailure", "Never")


def _container(one: dict[str, Any], here: str, names: set[str], volumes: set[Any]) -> Iterator[Cause]:
    name = one.get("name", "")
    if not name:
        yield _required(f"{here}.name")
    elif name in names:
        yield (f"{here}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"')
    elif not _LABEL.fullmatch(name):
        yield _invalid(f"{here}.name", name, _SAY_LABEL)
    if not one.get("image"):
        yield _required(f"{here}.image")
    for number, variable in enumerate(one.get("env") or []):
        if not variable.get("name"):
            yield _required(f"{here}.env[{number}].name")
    for number, mount in enumerate(one.get("volumeMounts") or []):
        if mount.get("name") not in volumes:
            yield (
                f"{here}.volumeMounts[{number}].name",
                "FieldValueNotFound",
                f'Not found: "{mount.get("name")}"',
            )
    policy = one.get("imagePullPolicy")
    if policy not in (None, "Always", "IfNotPresent", "Never"):
        yield _unsupported(f"{here}.imagePullPolicy", policy, "Always", "IfNotPresent", "Never")
    yield from _amounts(one.get("resources") or {}, here)


def _amounts(resources: dict[str, Any], here: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for resource, amount in amounts.items():
            where = f"{here}.resources.{kind}[{resource}]"
            if quantities.number(amount) < 0:
                yield _invalid(where, str(amount), "must be greater than or equal to 0")
            elif "/" in resource and not str(amount).isdigit():
                yield _invalid(where, str(amount), "must be an integer")
    for resource, amount in requests.items():
        if (limit := limits.get(resource)) is None:
            continue
        own, most = quantities.number(amount), quantities.number(limit)
        if "/" in resource and own != most:
            yield _invalid(
                f"{here}.resources.requests", str(amount), f"must be equal to {resource} limit of {limit}"
            )
        elif own > most:
            told = f"must be less than or equal to {resource} limit of {limit}"
            yield _invalid(f"{here}.resources.requests", str(amount), told)


def pod_update_causes(new: dict[str, Any], old: dict[str, Any]) -> list[Cause]:
    """Returns what is wrong with a change of a pod: hardly anything of it can be changed."""
    return [] if _fixed(new) == _fixed(old) else [("spec", "FieldValueForbidden", _SAY_FIXED)]


def _fixed(spec: dict[str, Any]) -> dict[str, Any]:
    free = ("containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName",
            "nodeSelector", "terminationGracePeriodSeconds")  # fmt: skip
    kept: dict[str, Any] = {key: value for key, value in spec.items() if key not in free}
    for kind in ("containers", "initContainers"):
        kept[kind] = [
            {key: value for key, value in one.items() if key not in _FREE} for one in spec.get(kind) or []
        ]
    return kept


def job_causes(obj: Obj) -> list[Cause]:
    """Returns what is wrong with a Job."""
    return list(_job(obj))


def _job(obj: Obj) -> Iterator[Cause]:
    name, spec = obj["metadata"].get("name", ""), obj["spec"]
    pod = spec["template"]["spec"]
    if spec["completionMode"] not in ("Indexed", "NonIndexed"):
        yield _unsupported("spec.completionMode", spec["completionMode"], "NonIndexed", "Indexed")
    if spec["completionMode"] == "Indexed" and spec.get("completions") is None:
        told = "Required value: when completion mode is Indexed"
        yield ("spec.completions", "FieldValueRequired", told)
    for field in ("parallelism", "completions", "backoffLimit"):
        if (spec.get(field) or 0) < 0:
            yield _invalid(f"spec.{field}", spec[field], "must be greater than or equal to 0")
    if len(name) > 63:
        yield _invalid("spec.template.labels", name, "must be no more than 63 bytes")
    yield from _failure_policy(spec, pod)
    yield from _pod(pod, "spec.template.spec")
    if pod["restartPolicy"] not in ("Never", "OnFailure"):
        yield ("spec.template.spec.restartPolicy", "FieldValueRequired", _SAY_RESTART)
    elif spec.get("podFailurePolicy") and pod["restartPolicy"] != "Never":
        told = 'only "Never" is supported when podFailurePolicy is specified'
        yield _invalid("spec.template.spec.restartPolicy", "OnFailure", told)


def _failure_policy(spec: dict[str, Any], pod: dict[str, Any]) -> Iterator[Cause]:
    names = {one.get("name") for kind in ("containers", "initContainers") for one in pod.get(kind) or ()}
    for number, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or []):
        codes, here = rule.get("onExitCodes") or {}, f"spec.podFailurePolicy.rules[{number}].onExitCodes"
        values = codes.get("values") or []
        if codes.get("containerName") not in (None, *names):
            told = "must be one of the container or initContainer names in the pod template"
            yield _invalid(f"{here}.containerName", codes["containerName"], told)
        if codes.get("operator") == "In" and 0 in values:
            yield _invalid(f"{here}.values[{values.index(0)}]", 0, "must not be 0 for the In operator")
        if values != sorted(values):
            listed = ",".join(str(one) for one in values)
            yield (f"{here}.values", "FieldValueInvalid", f"Invalid value: [{listed}]: must be ordered")
