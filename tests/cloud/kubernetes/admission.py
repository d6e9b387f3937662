"""What is refused or changed on the way in: built-in admission, validation, and the webhooks of JobSet and Kueue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.cloud.kubernetes import refusals, webhooks
from tests.cloud.kubernetes.names import SAY_SUBDOMAIN, SUBDOMAIN
from tests.cloud.kubernetes.pod_rules import job_causes, pod_causes, pod_update_causes
from tests.cloud.kubernetes.resources import Resource
from tests.cloud.kubernetes.schedule import Schedule
from tests.cloud.kubernetes.store import Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]|")
_SAY_RESTART = 'Required value: valid values: "OnFailure", "Never"'


def creating(world: World, resource: Resource, obj: Obj) -> None:
    """Admits a new object, changing it where a webhook would."""
    _name(resource, obj)
    if resource.qualified == "pods":
        _pod(world, obj)
    webhooks.creating(world, resource, obj)
    _labels(resource, obj)
    if resource.qualified == "jobs.batch":
        _job(obj)
    if resource.qualified == "cronjobs.batch":
        _cronjob(obj)
    if resource.kind == "CustomResourceDefinition":
        _definition(obj)


def updating(world: World, resource: Resource, obj: Obj, old: Obj) -> None:
    """Admits a changed object."""
    _labels(resource, obj)
    if resource.qualified == "pods" and (causes := pod_update_causes(obj["spec"], old["spec"])):
        raise refusals.invalid("Pod", "", obj["metadata"]["name"], causes)
    if resource.qualified == "jobs.batch":
        _job_update(obj, old)
    if resource.qualified == "cronjobs.batch":
        _cronjob(obj)
    webhooks.updating(world, resource, obj, old)


def _name(resource: Resource, obj: Obj) -> None:
    meta = obj["metadata"]
    name = meta.get("name") or meta.get("generateName", "")
    if not name:
        why = "Required value: name or generateName is required"
        raise refusals.invalid(
            resource.kind, resource.group, "", [("metadata.name", "FieldValueRequired", why)]
        )
    checked = name if meta.get("name") else name.rstrip("-.") + "-x"
    # Role names and the like may hold anything that is no path.
    if resource.group != "rbac.authorization.k8s.io" and (
        not SUBDOMAIN.fullmatch(checked) or len(name) > 253
    ):
        why = f'Invalid value: "{name}": {SAY_SUBDOMAIN}'
        raise refusals.invalid(
            resource.kind, resource.group, name, [("metadata.name", "FieldValueInvalid", why)]
        )


def _labels(resource: Resource, obj: Obj) -> None:
    meta = obj["metadata"]
    causes = []
    for value in (meta.get("labels") or {}).values():
        if not _LABEL.fullmatch(value):
            told = (
                f'Invalid value: "{value}": a valid label must be an empty string or consist of alphanumeric '
            )
            told += "characters, '-', '_' or '.', and must start and end with an alphanumeric character "
            told += "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            told += "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            causes.append(("metadata.labels", "FieldValueInvalid", told))
        elif len(value) > 63:
            told = f'Invalid value: "{value}": must be no more than 63 bytes'
            causes.append(("metadata.labels", "FieldValueInvalid", told))
    if causes:
        raise refusals.invalid(resource.kind, resource.group, meta.get("name", ""), causes)


def _pod(world: World, obj: Obj) -> None:
    meta, spec = obj["metadata"], obj["spec"]
    name, space = meta.get("name", ""), meta["namespace"]
    account = spec["serviceAccountName"]
    if world.store.get("serviceaccounts", space, account) is None:
        why = f'error looking up service account {space}/{account}: serviceaccount "{account}" not found'
        raise refusals.forbidden("pods", name, why)
    wanted = spec.get("priorityClassName")
    if wanted:
        found = world.store.get("priorityclasses.scheduling.k8s.io", "", wanted)
        if found is None:
            raise refusals.forbidden("pods", name, f"no PriorityClass with name {wanted} was found")
        spec["priority"] = found["value"]
    if causes := pod_causes(spec, "spec"):
        raise refusals.invalid("Pod", "", name, causes)


def _job(obj: Obj) -> None:
    if causes := job_causes(obj):
        raise refusals.invalid("Job", "batch", obj["metadata"].get("name", ""), causes)


def _cronjob(obj: Obj) -> None:
    meta, spec = obj["metadata"], obj["spec"]
    causes = []
    if len(meta.get("name", "")) > 52:  # a Job's name has the minute besides
        told = f'Invalid value: "{meta["name"]}": must be no more than 52 characters'
        causes.append(("metadata.name", "FieldValueInvalid", told))
    try:
        Schedule(spec.get("schedule", ""), spec.get("timeZone"))
    except ValueError as error:
        where, value = (
            ("timeZone", spec["timeZone"]) if "time zone" in str(error) else ("schedule", spec["schedule"])
        )
        causes.append((f"spec.{where}", "FieldValueInvalid", f'Invalid value: "{value}": {error}'))
    if spec["concurrencyPolicy"] not in ("Allow", "Forbid", "Replace"):
        told = f'Unsupported value: "{spec["concurrencyPolicy"]}": supported values: "Allow", "Forbid", "Replace"'
        causes.append(("spec.concurrencyPolicy", "FieldValueNotSupported", told))
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    causes += pod_causes(pod, "spec.jobTemplate.spec.template.spec")
    if pod["restartPolicy"] not in ("Never", "OnFailure"):
        where = "spec.jobTemplate.spec.template.spec.restartPolicy"
        causes.append((where, "FieldValueRequired", _SAY_RESTART))
    if causes:
        raise refusals.invalid("CronJob", "batch", meta.get("name", ""), causes)


def _definition(obj: Obj) -> None:
    name, spec = obj["metadata"].get("name", ""), obj["spec"]
    causes = []
    if name != (whole := f"{spec['names']['plural']}.{spec['group']}"):
        told = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        causes.append(("metadata.name", "FieldValueInvalid", told))
    for number, one in enumerate(spec["versions"]):
        if not (one.get("schema") or {}).get("openAPIV3Schema"):
            where = f"spec.versions[{number}].schema.openAPIV3Schema"
            causes.append((where, "FieldValueRequired", "Required value"))
    if causes:
        raise refusals.invalid("CustomResourceDefinition", "apiextensions.k8s.io", name or whole, causes)


def _job_update(obj: Obj, old: Obj) -> None:
    """The pods of a Job can be changed while it is suspended only; the rest not at all."""
    new, was = obj["spec"], old["spec"]
    fixed = ("completions", "completionMode", "selector", "podFailurePolicy")
    causes = [
        (f"spec.{field}", "FieldValueInvalid", "Invalid value: field is immutable")
        for field in fixed
        if new.get(field) != was.get(field)
    ]
    if new["template"] != was["template"] and not was.get("suspend"):
        causes.append(("spec.template", "FieldValueInvalid", "Invalid value: field is immutable"))
    if causes:
        raise refusals.invalid("Job", "batch", obj["metadata"]["name"], causes)
