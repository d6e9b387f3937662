"""Label and field selectors: parsed from a query, matched against objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.cloud.kubernetes.refusals import Refused

Test = Callable[[dict[str, Any]], bool]

_SET = re.compile(r"\s*(!?)\s*([^\s!=,()]+)\s*(?:(notin|in)\s*\(([^)]*)\)|(==|=|!=)\s*([^,]*))?\s*(?:,|$)")

_FIELDS = {
    "pods": ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
             "status.podIP", "spec.hostNetwork"),
    "events": ("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
               "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
               "reportingComponent", "source", "type"),
    "jobs.batch": ("status.successful",),
    "nodes": ("spec.unschedulable",),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
}  # fmt: skip


def by_labels(text: str) -> Test:
    """Returns the test of a labelSelector; ValueError-like refusals are 400."""
    wanted: list[Test] = []
    at = 0
    while at < len(text):
        match = _SET.match(text, at)
        if not match or match.end() == at:
            raise Refused(400, f"unable to parse requirement: found {text[at:]!r}, expected: identifier")
        wanted.append(_label_test(match))
        at = match.end()
    return lambda obj: all(test(obj["metadata"].get("labels") or {}) for test in wanted)


def _label_test(match: re.Match[str]) -> Test:
    negated, key, among, values, sign, value = match.groups()
    if among:
        listed = {one.strip() for one in values.split(",")}
        if among == "in":
            return lambda labels: labels.get(key) in listed
        return lambda labels: labels.get(key) not in listed
    if sign:
        value = value.strip()
        if sign == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if negated:
        return lambda labels: key not in labels
    return lambda labels: key in labels


def by_fields(text: str, qualified: str) -> Test:
    """Returns the test of a fieldSelector; only the fields that the kind supports are accepted."""
    wanted: list[tuple[str, bool, str]] = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*([^=!]+?)\s*(==|=|!=)\s*(.*)", part)
        if not match:
            raise Refused(400, f"invalid selector: '{part}'; can't understand '{part}'")
        field, sign, value = match.groups()
        if field not in ("metadata.name", "metadata.namespace", *_FIELDS.get(qualified, ())):
            raise Refused(400, f"field label not supported: {field}")
        wanted.append((field, sign != "!=", value))
    return lambda obj: all((_field(obj, field) == value) is same for field, same, value in wanted)


def _field(obj: dict[str, Any], path: str) -> str:
    found: Any = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return "" if found is None else str(found)


def matching(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
    """Says whether labels match a `LabelSelector` object; an absent one matches nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(expression_holds(one, labels) for one in selector.get("matchExpressions") or [])


def expression_holds(one: dict[str, Any], labels: dict[str, str]) -> bool:
    """Says whether one match expression holds."""
    value, listed = labels.get(one["key"]), one.get("values") or []
    match one["operator"]:
        case "In":
            return value in listed
        case "NotIn":
            return value not in listed
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(listed[0])
        case "Lt":
            return value is not None and int(value) < int(listed[0])
    return False
