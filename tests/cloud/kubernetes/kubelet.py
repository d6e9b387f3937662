"""The kubelets of all nodes: a run for each pod that has a node."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from tests.cloud.kubernetes.pod_run import PodRun
from tests.cloud.kubernetes.store import Change

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World


class Kubelet:
    """Runs pods, one task each."""

    def __init__(self, world: World) -> None:
        """Watches the pods of a cluster."""
        self._world = world
        self._pods: dict[str, PodRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        world.store.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.key[0] != "pods":
            return
        uid, meta = change.obj["metadata"]["uid"], change.obj["metadata"]
        if change.type == "DELETED":
            self._world.logs.drop(uid)
            if run := self._pods.pop(uid, None):
                run.kill()
            shutil.rmtree(self._world.folder / "pods" / uid, ignore_errors=True)
            return
        run = self._pods.get(uid)
        if run is None and change.obj["spec"].get("nodeName") and change.obj["status"]["phase"] == "Pending":
            run = self._pods[uid] = PodRun(self._world, change.key, change.obj)
            task = asyncio.get_running_loop().create_task(run.live())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if run is not None and meta.get("deletionTimestamp"):
            run.told_to_end.set()

    def running(self) -> list[int]:
        """Returns the process ids of containers."""
        return [pid for run in self._pods.values() for pid in run.pids()]

    def lose(self, node: str) -> None:
        """Lets a node vanish: its processes die, and nobody says so."""
        for run in list(self._pods.values()):
            if run.node == node:
                run.vanish()

    def end(self) -> None:
        """Kills everything."""
        for run in self._pods.values():
            run.vanish()
