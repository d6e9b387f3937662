"""Cloud Monitoring's time series: put there by whoever plays GKE's agents, seen late, filtered, aligned, in pages."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any

from tests.cloud.project.memory import World, allowed, bad, missing

_PATH = re.compile(r"v3/projects/(?P<project>[^/]+)/timeSeries")
_TERM = re.compile(r"""(?P<field>[\w.]+) = (?:(?P<begins>starts_with)\()?"(?P<value>[^"]*)"\)?""")
_SETTLED = {"ALIGN_MEAN": lambda values: sum(values) / len(values), "ALIGN_MAX": max}


def answer(world: World, verb: str, path: str, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
    """Answers for Cloud Monitoring: writing series and listing them."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise missing(path)
    project = match["project"]
    if verb == "POST":
        allowed(world, "monitoring.timeSeries.create", project)
        world["project"]["series"] += [
            {**one, "resource": _of(one["resource"], project)} for one in body["timeSeries"]
        ]
        return {}
    allowed(world, "monitoring.timeSeries.list", project)
    terms = [_TERM.fullmatch(one) for one in query.get("filter", "").split(" AND ")]
    if not all(terms) or not any(one and one["field"] == "metric.type" for one in terms):
        raise bad("The filter must specify a single metric type.")
    if query["interval.startTime"] > query["interval.endTime"]:
        raise bad("The start time must be before the end time.")
    shown = [
        made
        for one in world["project"]["series"]
        if all(_holds(one, term) for term in terms if term)
        and (made := _aligned(one, query, world["settings"]["metrics_late_s"]))["points"]
    ]
    begin, size = int(query.get("pageToken") or 0), int(query.get("pageSize", 100_000))
    rest = {"nextPageToken": str(begin + size)} if begin + size < len(shown) else {}
    return {"timeSeries": shown[begin : begin + size], **rest}


def _of(resource: dict[str, Any], project: str) -> dict[str, Any]:
    return {**resource, "labels": {"project_id": project, **resource["labels"]}}


def _holds(series: dict[str, Any], term: re.Match[str]) -> bool:
    found: Any = series
    for part in term["field"].split("."):
        found = found.get(part, {})
    return str(found).startswith(term["value"]) if term["begins"] else found == term["value"]


def _aligned(series: dict[str, Any], query: dict[str, str], late_s: float) -> dict[str, Any]:
    """Returns a series with one value for each period, newest first, as the service does; of what it shows by now."""
    begin, end = (_read(query[f"interval.{name}Time"]) for name in ("start", "end"))
    period = float(query.get("aggregation.alignmentPeriod", "60s").removesuffix("s"))
    steps: dict[float, list[float]] = {}
    for point in series["points"]:
        at, [value] = _read(point["interval"]["endTime"]), point["value"].values()
        if begin < at <= min(end, time.time() - late_s):
            steps.setdefault(end - (end - at) // period * period, []).append(float(value))
    settle = _SETTLED[query.get("aggregation.perSeriesAligner", "ALIGN_MEAN")]
    points = [
        {"interval": {"startTime": _told(at), "endTime": _told(at)}, "value": {"doubleValue": settle(values)}}
        for at, values in sorted(steps.items(), reverse=True)
    ]
    return {**series, "valueType": "DOUBLE", "points": points}


def _read(at: str) -> float:
    return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()


def _told(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
