"""Amounts of resources in what is written: those of pods are turned into the one way the server writes them in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cloud.kubernetes import quantities
from tests.cloud.kubernetes.calls import Call
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.store import Obj


def settle(call: Call, obj: Obj) -> None:
    """Writes the amounts of an object's pods, in place, as they will come back; refuses what is no amount."""
    try:
        for spec in pods(call.resource.qualified, obj):
            for one in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
                for kind in ("limits", "requests"):
                    amounts = (one.get("resources") or {}).get(kind)
                    if isinstance(amounts, dict):
                        one["resources"][kind] = {name: _written(value) for name, value in amounts.items()}
    except ValueError as error:
        if call.resource.custom:
            raise Refused(
                400, f'admission webhook "mjobset.kb.io" denied the request: {error}', reason=None
            ) from None
        kind = call.resource.kind
        raise Refused(
            400, f'{kind} in version "{call.version}" cannot be handled as a {kind}: {error}'
        ) from None


def _written(value: Any) -> str:
    return quantities.canonical(value)


def pods(qualified: str, obj: Obj) -> Iterator[dict[str, Any]]:
    """Yields the pod specifications that an object has."""
    spec = obj.get("spec") or {}
    match qualified:
        case "pods":
            yield spec
        case "jobs.batch" | "deployments.apps" | "daemonsets.apps":
            yield _inside(spec)
        case "cronjobs.batch":
            yield _inside((spec.get("jobTemplate") or {}).get("spec") or {})
        case "jobsets.jobset.x-k8s.io":
            for one in spec.get("replicatedJobs") or ():
                yield _inside((one.get("template") or {}).get("spec") or {})


def _inside(spec: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (spec.get("template") or {}).get("spec") or {}
    return found
