"""A whole cluster: its world, its controllers, its kubelets, and the two ports at which it is reached."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route

from tests.cloud.kubernetes import (
    cronjob,
    daemons,
    deployments,
    garbage,
    job,
    jobset,
    kueue,
    lifecycle,
    nodes,
    scheduler,
)
from tests.cloud.kubernetes.api import Api
from tests.cloud.kubernetes.connections import Connections
from tests.cloud.kubernetes.control import Control
from tests.cloud.kubernetes.kubelet import Kubelet
from tests.cloud.kubernetes.ports import Port
from tests.cloud.kubernetes.processes import kill_marked
from tests.cloud.kubernetes.settings import Settings
from tests.cloud.kubernetes.world import World

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class Cluster:
    """One stand-in for a Kubernetes cluster."""

    def __init__(
        self, folder: Path, settings: Settings, port: int, control_port: int, **installed: bool
    ) -> None:
        """Makes it; `run` starts it. `jobset` and `kueue` say what is installed from the start."""
        self.world = World(folder, settings, **installed)
        self.connections = Connections()
        api = Api(self.world, self.connections)
        app = Starlette(routes=[Route("/{path:path}", api.answer, methods=_METHODS)])
        self.api = Port(app, port, self.connections, certificates=settings.certificates)
        self.control = Port(Control(self).app(), control_port, Connections())
        self.kubelet: Kubelet | None = None

    async def run(self) -> None:
        """Serves until it is cancelled; then nothing of it is left running."""
        self.kubelet = Kubelet(self.world)
        runners = kueue.runners(self.world)
        runners += [
            one.runner(self.world)
            for one in (garbage, scheduler, job, jobset, cronjob, lifecycle, deployments, daemons)
        ]
        tasks = [asyncio.create_task(one.run()) for one in runners]
        nodes.add_pools(self.world, self.world.settings.nodes or nodes.DEFAULT)
        try:
            await self.api.open()
            await self.control.open()
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            self.kubelet.end()
            kill_marked(self.world.mark)
            await self.api.close()
            await self.control.close()

    def facts(self) -> dict[str, Any]:
        """Returns where it is reached."""
        return {"url": self.api.url, "control": self.control.url, "mark": self.world.mark}


def run(cluster: Cluster, ready: Any, parent: int | None = None) -> None:
    """Runs a cluster in this process until it is interrupted, or its parent is gone; `ready` is called once it can be
    reached.
    """

    async def main() -> None:
        task = asyncio.create_task(cluster.run())
        for one in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(one, task.cancel)
        while not (cluster.api.opened and cluster.control.opened) and not task.done():
            await asyncio.sleep(0.005)
        ready()
        while parent is not None and not task.done():
            await asyncio.wait([task], timeout=0.5)
            if os.getppid() != parent:
                task.cancel()
        await task

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main())
