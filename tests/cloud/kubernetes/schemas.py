"""Which fields kinds have: of built-in ones as lightkube's models list them, of JobSet's and Kueue's as here."""

from __future__ import annotations

import typing
from datetime import datetime
from functools import cache
from typing import Any, Union

from lightkube.models import batch_v1, core_v1, meta_v1, scheduling_v1

from tests.cloud.kubernetes import refusals
from tests.cloud.kubernetes.resources import Resource

Schema = Any
"""A class with annotated fields, a typing form (`list[X]`, `dict[str, X]`), a dict of fields, or a JSON type's name."""

_STRINGS, _MAP = typing.List[str], typing.Dict[str, str]  # noqa: UP006 - as the models have them
_QUOTA = {"name": str, "nominalQuota": "scalar", "borrowingLimit": "scalar", "lendingLimit": "scalar"}


def _listed(schema: Schema) -> Schema:
    return ("list", schema)


JOBSET: dict[str, Schema] = {
    "replicatedJobs": _listed(
        {
            "name": str,
            "groupName": str,
            "replicas": int,
            "template": batch_v1.JobTemplateSpec,
            "dependsOn": _listed({"name": str, "status": str}),
        }
    ),
    "network": {"enableDNSHostnames": bool, "subdomain": str, "publishNotReadyAddresses": bool},
    "successPolicy": {"operator": str, "targetReplicatedJobs": _STRINGS},
    "failurePolicy": {
        "maxRestarts": int,
        "restartStrategy": str,
        "rules": _listed(
            {
                "name": str,
                "action": str,
                "onJobFailureReasons": _STRINGS,
                "onJobFailureMessagePatterns": _STRINGS,
                "targetReplicatedJobs": _STRINGS,
            }
        ),
    },
    "startupPolicy": {"startupPolicyOrder": str},
    "suspend": bool,
    "coordinator": {"replicatedJob": str, "jobIndex": int, "podIndex": int},
    "managedBy": str,
    "ttlSecondsAfterFinished": int,
    "volumeClaimPolicies": _listed("any"),
}
_PREEMPTION = {"reclaimWithinCohort": str, "withinClusterQueue": str, "borrowWithinCohort": "any"}
KUEUE: dict[str, Schema] = {
    "ResourceFlavor": {
        "nodeLabels": _MAP,
        "nodeTaints": _listed(core_v1.Taint),
        "tolerations": _listed(core_v1.Toleration),
        "topologyName": str,
    },
    "LocalQueue": {"clusterQueue": str, "stopPolicy": str, "fairSharing": "any"},
    "ClusterQueue": {
        "resourceGroups": _listed(
            {
                "coveredResources": _STRINGS,
                "flavors": _listed({"name": str, "resources": _listed(_QUOTA)}),
            }
        ),
        "cohort": str,
        "cohortName": str,
        "queueingStrategy": str,
        "namespaceSelector": meta_v1.LabelSelector,
        "flavorFungibility": {"whenCanBorrow": str, "whenCanPreempt": str, "preference": str},
        "preemption": _PREEMPTION,
        "admissionChecks": _STRINGS,
        "admissionChecksStrategy": "any",
        "stopPolicy": str,
        "fairSharing": "any",
        "admissionScope": "any",
    },
    "Topology": {"levels": _listed({"nodeLabel": str})},
}
_BUILT_IN: dict[str, type] = {
    "pods": core_v1.Pod,
    "services": core_v1.Service,
    "secrets": core_v1.Secret,
    "configmaps": core_v1.ConfigMap,
    "serviceaccounts": core_v1.ServiceAccount,
    "namespaces": core_v1.Namespace,
    "persistentvolumeclaims": core_v1.PersistentVolumeClaim,
    "persistentvolumes": core_v1.PersistentVolume,
    "jobs.batch": batch_v1.Job,
    "cronjobs.batch": batch_v1.CronJob,
    "priorityclasses.scheduling.k8s.io": scheduling_v1.PriorityClass,
}
_OF_STRINGS = {"labels", "annotations", "nodeSelector", "matchLabels", "data", "stringData", "selector"}
_SCALARS = {str: "string", int: "integer", bool: "boolean", float: "number", datetime: "string"}
_ACTIONS = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
)
_ENUMS = {
    ("successPolicy", "operator"): ("All", "Any"),
    ("startupPolicy", "startupPolicyOrder"): ("AnyOrder", "InOrder"),
    ("failurePolicy", "restartStrategy"): ("Recreate", "BlockingRecreate", "InPlaceRestart"),
}


def of(resource: Resource) -> Schema | None:
    """Returns the schema of a kind, None where nothing is known of it."""
    frame = {"apiVersion": str, "kind": str, "metadata": meta_v1.ObjectMeta, "status": "any"}
    if resource.qualified in _BUILT_IN:
        return _BUILT_IN[resource.qualified]
    if resource.kind == "JobSet":
        return {**frame, "spec": JOBSET}
    if resource.kind == "WorkloadPriorityClass":
        return {**frame, "value": int, "description": str}
    if resource.group == "kueue.x-k8s.io" and resource.kind in KUEUE:
        return {**frame, "spec": KUEUE[resource.kind]}
    return None


def require(resource: Resource, obj: dict[str, Any]) -> None:
    """Refuses a JobSet without what its definition demands, or with other than the listed values."""
    if resource.kind != "JobSet":
        return
    spec = obj.get("spec") or {}
    causes = []
    seen: set[str] = set()
    for number, one in enumerate(spec.get("replicatedJobs") or []):
        where, name = f"spec.replicatedJobs[{number}]", one.setdefault("name", "")
        template = one.setdefault("template", {}).setdefault("spec", {}).setdefault("template", {})
        if (
            template.setdefault("spec", {}).get("containers") is None
        ):  # the webhook writes what is not there as null
            here = f"{where}.template.spec.template.spec.containers"
            told = f'Invalid value: "null": {here} in body must be of type array: "null"'
            causes.append((here, "FieldValueTypeInvalid", told))
        if name in seen:
            told = f'Duplicate value: {{"name":"{name}"}}'
            raise refusals.invalid(
                resource.kind, resource.group, obj["metadata"].get("name", ""),
                [(where, "FieldValueDuplicate", told)],
            )  # fmt: skip
        seen.add(name)
    for number, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or []):
        if rule.get("action") not in _ACTIONS:
            listed = ", ".join(f'"{one}"' for one in _ACTIONS)
            told = f'Unsupported value: "{rule.get("action", "")}": supported values: {listed}'
            causes.append((f"spec.failurePolicy.rules[{number}].action", "FieldValueNotSupported", told))
    if (spec.get("ttlSecondsAfterFinished") or 0) < 0:
        where = "spec.ttlSecondsAfterFinished"
        told = f"Invalid value: {spec['ttlSecondsAfterFinished']}: {where} in body should be greater than or equal to 0"
        raise refusals.invalid(
            resource.kind,
            resource.group,
            obj["metadata"].get("name", ""),
            [(where, "FieldValueInvalid", told)],
        )
    for (part, field), allowed in _ENUMS.items():
        value = (spec.get(part) or {}).get(field)
        if value is not None and value not in allowed:
            listed = ", ".join(f'"{one}"' for one in allowed)
            told = f'Unsupported value: "{value}": supported values: {listed}'
            causes.append((f"spec.{part}.{field}", "FieldValueNotSupported", told))
    if causes:
        raise refusals.unshaped(resource.kind, resource.group, obj["metadata"].get("name", ""), causes)


def form(schema: Schema) -> str:
    """Returns what a schema stands for: object, map, array, any, scalar (string or number), or a JSON type."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, dict):
        return "object"
    if isinstance(schema, tuple):
        return "array"
    if schema in _SCALARS:
        return _SCALARS[schema]
    origin = typing.get_origin(schema)
    if origin is list:
        return "array"
    if origin is dict:
        return "map"
    if origin is Union:
        return "scalar"
    return "object" if hasattr(schema, "__struct_fields__") else "any"


def inner(schema: Schema) -> Schema:
    """Returns the schema of a list's entries, or of a map's values."""
    if isinstance(schema, tuple):
        return schema[1]
    return typing.get_args(schema)[-1]


def fields(schema: Schema) -> dict[str, Schema]:
    """Returns an object's fields."""
    return schema if isinstance(schema, dict) else _of_class(schema)


@cache
def _of_class(model: type) -> dict[str, Schema]:
    hints = typing.get_type_hints(model)
    names = dict(zip(model.__struct_fields__, model.__struct_encode_fields__, strict=True))  # type: ignore[attr-defined]
    return {told: _plain(told, hints[name]) for name, told in names.items()}


def _plain(name: str, hint: Any) -> Schema:
    if typing.get_origin(hint) is Union:
        kept = [one for one in typing.get_args(hint) if one is not type(None)]
        hint = kept[0] if len(kept) == 1 else "scalar"
    if hint in (dict, typing.Dict):  # noqa: UP006
        return _MAP if name in _OF_STRINGS else typing.Dict[str, Any]  # noqa: UP006
    # Amounts are given as text or as numbers.
    return typing.Dict[str, Any] if name in ("limits", "requests", "capacity") else hint  # noqa: UP006
