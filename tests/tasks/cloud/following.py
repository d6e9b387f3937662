"""Follows JobSets of a stand-in cluster in a thread, for tests, and sorts what was told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_follow import Followed, follow
from tasks.cloud.kubernetes_kinds import JOB_SET, Object
from tasks.cloud.kubernetes_link import Patience
from tasks.cloud.kubernetes_told import Line, LogEnd, Unread
from tasks.cloud.kubernetes_watch import Change, Contact
from tasks.cloud.timing import Timing
from tests.cloud.kubernetes.manifests import jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.waiting import PATIENCE_S

QUICK = Patience(away_s=PATIENCE_S, refused_s=5.0, first_pause_s=0.05, longest_pause_s=0.2, silence_s=60.0)
COUNTS = """
import time
for number in range({lines}):
    print("line", number, flush=True)
    time.sleep({pause})
"""
WAITS = """
import pathlib, time
print("up", flush=True)
while not pathlib.Path({file!r}).exists():
    time.sleep(0.02)
print("done", flush=True)
"""


@contextmanager
def followed(cluster: KubernetesStandIn) -> Iterator[Kubernetes]:
    """Gives a way into a cluster; in the end its JobSets are deleted, and nothing of them is left."""
    access = by_context("standin", str(cluster.kubeconfig))
    kube = Kubernetes(access, timing=Timing(60.0, PATIENCE_S, 0.02, 0.2))
    yield kube
    cluster.fault()
    for one in kube.list(JOB_SET).items:
        kube.delete(JOB_SET, one["metadata"]["name"])
    cluster.assert_nothing_left(but=("configmaps", "events"))


def ended(change: Change) -> bool:
    return change.kind == JOB_SET and (
        change.type == "DELETED" or "terminalState" in (change.object.get("status") or {})
    )


@dataclass
class Told:
    """What was followed, sorted."""

    items: list[Followed] = field(default_factory=list)

    @property
    def lines(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in self.items:
            if isinstance(one, Line):
                found.setdefault(one.source.pod, []).append(one.text)
        return found

    @property
    def ends(self) -> list[LogEnd]:
        return [one for one in self.items if isinstance(one, LogEnd)]

    @property
    def changes(self) -> list[Change]:
        return [one for one in self.items if isinstance(one, Change)]

    @property
    def unread(self) -> list[Unread]:
        return [one for one in self.items if isinstance(one, Unread)]

    @property
    def contacts(self) -> list[str]:
        return [one.lost for one in self.items if isinstance(one, Contact)]


class Following(threading.Thread):
    """A JobSet that is followed in a thread, so that a test can do things meanwhile."""

    def __init__(self, kube: Kubernetes, made: Object, **more: Any) -> None:
        super().__init__(daemon=True)
        self.told = Told()
        self.error: Exception | None = None
        meta = made["metadata"]
        more = {"until": ended, "patience": QUICK, **more}
        self.iterator = follow(kube.access, meta["namespace"], meta["name"], meta["uid"], **more)
        self.start()

    def run(self) -> None:
        try:
            for one in self.iterator:
                self.told.items.append(one)
        except Exception as error:  # noqa: BLE001 (raised in `end`)
            self.error = error

    def lines(self) -> int:
        return sum(isinstance(one, Line) for one in list(self.told.items))

    def end(self) -> Told:
        self.join(PATIENCE_S)
        assert not self.is_alive(), "it goes on following"
        if self.error is not None:
            raise self.error
        return self.told


def made(kube: Kubernetes, name: str, program: str, **more: Any) -> Object:
    return kube.create(JOB_SET, jobset(name, program, **{"slices": 1, **more}))


def versions(told: Told, uid: str) -> list[int]:
    return [
        int(one.object["metadata"]["resourceVersion"])
        for one in told.changes
        if one.object["metadata"]["uid"] == uid
    ]


def assert_ordered(told: Told) -> None:
    """Each object was told first as added, each version once, in order."""
    for uid in {one.object["metadata"]["uid"] for one in told.changes}:
        mine = [one for one in told.changes if one.object["metadata"]["uid"] == uid]
        assert [one.type == "ADDED" for one in mine] == [True] + [False] * (len(mine) - 1), uid
        seen = versions(told, uid)
        assert seen == sorted(set(seen)), uid
