"""What Kueue's definitions and webhooks refuse: quota that does not cover, names twice, words that mean nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cloud.kubernetes import quantities, refusals
from tests.cloud.kubernetes.store import Obj

Cause = tuple[str, str, str]
"""Field, reason, message."""
_WORDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("queueingStrategy",): ("StrictFIFO", "BestEffortFIFO"),
    ("stopPolicy",): ("None", "Hold", "HoldAndDrain"),
    ("preemption", "withinClusterQueue"): ("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
    ("preemption", "reclaimWithinCohort"): ("Never", "LowerPriority", "Any"),
}
_MOST_FLAVORS = 64


def check(obj: Obj) -> None:
    """Refuses what a ClusterQueue may not be: by its definition first, then by its webhook."""
    name = obj["metadata"].get("name", "")
    if causes := list(_unshaped(obj["spec"])):
        raise refusals.unshaped("ClusterQueue", "kueue.x-k8s.io", name, causes)
    if causes := list(_uncovered(obj["spec"])):
        raise refusals.invalid("ClusterQueue", "kueue.x-k8s.io", name, causes)
    told = [f"{field}: {why}" for field, _, why in _denied(obj["spec"])]
    if told:
        raise refusals.denied("vclusterqueue.kb.io", told[0] if len(told) == 1 else f"[{', '.join(told)}]")


def check_local_update(obj: Obj, old: Obj) -> None:
    """Refuses to let a LocalQueue lead elsewhere."""
    wanted = obj["spec"].get("clusterQueue")
    if wanted != old["spec"].get("clusterQueue"):
        cause = ("spec.clusterQueue", "FieldValueInvalid", f'Invalid value: "{wanted}": field is immutable')
        raise refusals.invalid("LocalQueue", "kueue.x-k8s.io", obj["metadata"]["name"], [cause])


def _unshaped(spec: dict[str, Any]) -> Iterator[Cause]:
    for path, words in _WORDS.items():
        at: Any = spec
        for part in path:
            at = (at or {}).get(part)
        if at is not None and at not in words:
            listed = ", ".join(f'"{one}"' for one in words)
            told = f'Unsupported value: "{at}": supported values: {listed}'
            yield (f"spec.{'.'.join(path)}", "FieldValueNotSupported", told)
    for number, group in enumerate(spec.get("resourceGroups") or []):
        count = len(group.get("flavors") or [])
        if count > _MOST_FLAVORS:
            told = f"Too many: {count}: must have at most {_MOST_FLAVORS} items"
            yield (f"spec.resourceGroups[{number}].flavors", "FieldValueTooMany", told)


def _uncovered(spec: dict[str, Any]) -> Iterator[Cause]:
    for number, group in enumerate(spec.get("resourceGroups") or []):
        here, flavors = f"spec.resourceGroups[{number}]", group.get("flavors") or []
        if not spec.get("cohortName") and any(
            "borrowingLimit" in each for one in flavors for each in one["resources"]
        ):
            yield (
                "spec",
                "FieldValueInvalid",
                "Invalid value: borrowingLimit must be nil when cohort is empty",
            )
        if not flavors:
            where = f"{here}.flavors"
            yield (
                where,
                "FieldValueInvalid",
                f"Invalid value: 0: {where} in body should have at least 1 items",
            )
        elif any(len(one["resources"]) != len(group["coveredResources"]) for one in flavors):
            told = "Invalid value: flavors must have the same number of resources as the coveredResources"
            yield (here, "FieldValueInvalid", told)


def _denied(spec: dict[str, Any]) -> Iterator[Cause]:
    resources: set[str] = set()
    names: set[str] = set()
    for number, group in enumerate(spec.get("resourceGroups") or []):
        here = f"spec.resourceGroups[{number}]"
        for at, one in enumerate(group["coveredResources"]):
            if one in resources:
                yield (f"{here}.coveredResources[{at}]", "FieldValueDuplicate", f'Duplicate value: "{one}"')
            resources.add(one)
        for at, flavor in enumerate(group["flavors"]):
            if flavor["name"] in names:
                told = f'Duplicate value: "{flavor["name"]}"'
                yield (f"{here}.flavors[{at}].name", "FieldValueDuplicate", told)
            names.add(flavor["name"])
            for place, quota in enumerate(flavor["resources"]):
                if quantities.number(quota["nominalQuota"]) < 0:
                    where = f"{here}.flavors[{at}].resources[{place}].nominalQuota"
                    told = f'Invalid value: "{quota["nominalQuota"]}": must be greater than or equal to 0'
                    yield (where, "FieldValueInvalid", told)
                if (lent := quota.get("lendingLimit")) is None:
                    continue
                where = f"{here}.flavors[{at}].resources[{place}].lendingLimit"
                if not spec.get("cohortName"):
                    yield (
                        where,
                        "FieldValueInvalid",
                        f'Invalid value: "{lent}": must be nil when cohort is empty',
                    )
                if quantities.number(lent) > quantities.number(quota["nominalQuota"]):
                    told = f'Invalid value: "{lent}": must be less than or equal to the nominalQuota'
                    yield (where, "FieldValueInvalid", told)
