"""Replays a recording of what a real cluster said into a small store of objects, as a watch would fill one."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.targets.kube_found import Found
from tasks.targets.kube_objects import Objects, name, select, uid_of
from tasks.targets.kube_states import look

RECORDINGS = Path(__file__).parents[2] / "cases/kubernetes"


def recordings() -> list[str]:
    return sorted(path.name.removesuffix(".jsonl.gz") for path in RECORDINGS.glob("*.jsonl.gz"))


def lines(recording: str) -> Iterator[dict[str, Any]]:
    with gzip.open(RECORDINGS / f"{recording}.jsonl.gz", "rt") as file:
        yield from map(json.loads, file)


@dataclass
class Store:
    """Objects by uid as they are now, and the JobSets that were there, in order."""

    objects: dict[str, Any] = field(default_factory=dict)
    jobsets: dict[str, Any] = field(default_factory=dict)
    deleted: dict[str, Any] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)

    def take(self, line: dict[str, Any]) -> list[tuple[str, Found]]:
        """Takes one line; returns what became news by it: the JobSet's name and what was found."""
        if line["type"] == "MARK":
            return []
        one = line["object"]
        uid = uid_of(one)
        if line["type"] == "DELETED":
            self.objects.pop(uid, None)
            if line["kind"] == "JobSet":
                self.deleted[uid] = one
        else:
            self.objects[uid] = one
        if line["kind"] == "JobSet":
            self.jobsets[uid] = one
        return [(name(self.jobsets[uid]), found) for uid in self.jobsets if (found := self._look(uid))]

    def of(self, jobset_uid: str) -> Objects:
        return select(jobset_uid, self.objects.values(), self.deleted.get(jobset_uid))

    def _look(self, uid: str) -> Found | None:
        last = self.found.get(uid)
        self.found[uid] = look(self.of(uid), last)
        return self.found[uid] if last is None or last.key != self.found[uid].key else None


def replay(recording: str, until_s: float = float("inf")) -> Store:
    """Returns the store as it was after so many seconds of a recording. It is shared: only look at it."""
    return _replayed(recording, until_s)[0]


def objects_at(recording: str, at_s: float = float("inf")) -> list[Any]:
    """Returns all objects that were there after so many seconds of a recording."""
    objects: dict[str, Any] = {}
    for line in lines(recording):
        if line["t"] > at_s:
            break
        if line["type"] == "DELETED":
            objects.pop(uid_of(line["object"]), None)
        elif line["type"] != "MARK":
            objects[uid_of(line["object"])] = line["object"]
    return list(objects.values())


def news(recording: str) -> list[str]:
    """Returns all that became news in a recording: name, state, reason, and which attempt if not the first."""
    return _replayed(recording, float("inf"))[1]


@functools.cache
def _replayed(recording: str, until_s: float) -> tuple[Store, list[str]]:
    store, told = Store(), []
    for line in lines(recording):
        if line["t"] > until_s:
            break
        for name_, found in store.take(line):
            attempt = f" #{found.attempt}" if found.attempt > 1 else ""
            told.append(f"{name_} {found.state} {found.reason}{attempt}")
    return store, told
