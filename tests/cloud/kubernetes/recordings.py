"""The recordings of a real cluster, and what of them (or of the stand-in's history) must come in the same order."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Step = tuple[str, str, str]
"""(condition type, status, reason); or (`spec.suspend`, value, ``) and the like."""

_FOLDER = Path(__file__).parents[2] / "cases/kubernetes"
_KINDS = ("JobSet", "Workload", "Job", "Service")


def lines(name: str) -> Iterator[Line]:
    """Iterates over a recording."""
    with gzip.open(_FOLDER / f"{name}.jsonl.gz", "rt") as file:
        yield from map(json.loads, file)


def made(name: str, kind: str) -> list[dict[str, Any]]:
    """Returns the objects of a kind as they were when they were made, without what the server adds."""
    found = []
    for line in lines(name):
        if line["type"] == "ADDED" and line["kind"] == kind:
            obj = line["object"]
            meta = {
                key: value
                for key, value in obj["metadata"].items()
                if key in ("name", "namespace", "labels", "annotations")
            }
            found.append({**{key: value for key, value in obj.items() if key != "status"}, "metadata": meta})
    return found


def sequences(told: Iterable[Line]) -> dict[str, list[Step]]:
    """Returns what each object went through, by `kind name number`; the number tells incarnations apart."""
    steps: dict[str, list[Step]] = defaultdict(list)
    incarnations: dict[str, list[str]] = defaultdict(list)
    before: dict[str, dict[str, Step]] = defaultdict(dict)
    for line in told:
        obj = line.get("object") or {}
        if line["kind"] not in _KINDS or not obj:
            continue
        uid = obj["metadata"]["uid"]
        name = re.sub(r"^jobset-(.*)-[0-9a-f]{5}$", r"\1", obj["metadata"]["name"])
        called = f"{line['kind']} {name}"
        if uid not in incarnations[called]:
            incarnations[called].append(uid)
        key = f"{called} {incarnations[called].index(uid)}"
        if line["type"] == "DELETED":
            steps[key].append(("gone", "", ""))
            continue
        steps[key] += sorted(_changes(obj, before[uid]))
    return dict(steps)


def _changes(obj: dict[str, Any], before: dict[str, Step]) -> list[Step]:
    status = obj.get("status") or {}
    now: dict[str, Step] = {}
    for one in status.get("conditions") or []:
        now[one["type"]] = (one["type"], one["status"], one.get("reason", ""))
    for field in ("terminalState", "restarts"):
        if status.get(field):
            now[field] = (field, str(status[field]), "")
    if "suspend" in (obj.get("spec") or {}):
        now["suspend"] = ("suspend", str(bool(obj["spec"]["suspend"])), "")
    changed = [step for kind, step in now.items() if before.get(kind) != step]
    before.update(now)
    return changed
