"""One pod on its node: image pull, init containers, containers and their restarts, the end within its grace period."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import sys
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import clock, pod_status
from tests.cloud.kubernetes.containers import Container
from tests.cloud.kubernetes.environment import Missing
from tests.cloud.kubernetes.probes import passes
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.store import Key, Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_BY = "kubelet"


def _stands_beside(container: Container) -> bool:
    """Says whether it is up before the others of its pod, and ends after them."""
    return container.spec.get("restartPolicy") == "Always"


class PodRun:
    """One pod on its node."""

    def __init__(self, world: World, key: Key, pod: Obj) -> None:
        """Takes a pod that was just given its node."""
        self._world, self._key, self._pod = world, key, pod
        self.uid, self.node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        self.told_to_end = asyncio.Event()
        self._lost = False
        self._mains_over = asyncio.Event()
        """When those that stand beside the others are told to end."""
        self._beside: list[asyncio.Task[None]] = []
        self._containers = [Container(world, pod, one) for one in pod["spec"]["containers"]]
        self._inits = [Container(world, pod, one) for one in pod["spec"].get("initContainers") or ()]

    def pids(self) -> list[int]:
        """Returns the process ids of what runs."""
        return [one.pid for one in (*self._containers, *self._inits) if one.pid]

    def kill(self) -> None:
        """Kills what runs, at once."""
        for one in (*self._containers, *self._inits):
            one.kill()

    def vanish(self) -> None:
        """Kills what runs, and tells nobody any more."""
        self._lost = True
        self.kill()

    async def live(self) -> None:
        """Goes through a pod's life."""
        try:
            await self._live()
        except Exception:  # noqa: BLE001 - one pod's trouble is told, and the others go on
            traceback.print_exc(file=sys.stderr)

    async def _live(self) -> None:
        while not self._world.runs("kubelet"):
            await asyncio.sleep(0.05)
        if await self._pulled():
            if self._world.settings.ready_after_s:
                await self._pause(self._world.settings.ready_after_s)
            if await self._initialised() and not self.told_to_end.is_set():
                await self._run_all()
        self._mains_over.set()
        if self._lost:
            return
        if self.told_to_end.is_set():
            await asyncio.gather(*self._beside)
            self._report()
            self._gone()
            return
        await self.told_to_end.wait()
        self._gone()

    def _gone(self) -> None:
        with contextlib.suppress(Refused):
            if not self._lost:
                self._world.delete(self._key, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})

    async def _pause(self, seconds: float, until: asyncio.Event | None = None) -> bool:
        """Waits; returns whether the pod, or what ends with that event, is still wanted."""
        over = until or self.told_to_end
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), seconds)
        return not over.is_set()

    async def _pulled(self) -> bool:
        self._report()
        for one in (*self._inits, *self._containers):
            pause = self._world.settings.backoff_s
            while not self._exists(one.image):
                self._tell("Pulling", f'Pulling image "{one.image}"', one)
                why = f'failed to pull and unpack image "{one.image}": failed to resolve reference "{one.image}": '
                why = f"rpc error: code = NotFound desc = {why}{one.image}: not found"
                one.wait_for("ErrImagePull", why)
                self._report()
                self._tell("Failed", f'Failed to pull image "{one.image}": {why}', one, warning=True)
                self._tell("Failed", "Error: ErrImagePull", one, warning=True)
                if not await self._pause(pause * 0.2):
                    return False
                one.wait_for("ImagePullBackOff", f'Back-off pulling image "{one.image}": ErrImagePull: {why}')
                self._report()
                self._tell("BackOff", f'Back-off pulling image "{one.image}"', one)
                self._tell("Failed", "Error: ImagePullBackOff", one, warning=True)
                if not await self._pause(pause):
                    return False
                pause = min(pause * 2, 300)
            one.wait_for("ContainerCreating")
            self._tell("Pulled", f'Container image "{one.image}" already present on machine', one)
        return True

    def _exists(self, image: str) -> bool:
        return any(fnmatch.fnmatch(image, pattern) for pattern in self._world.settings.images)

    async def _initialised(self) -> bool:
        for one in self._inits:
            sidecar = _stands_beside(one)
            task = asyncio.ensure_future(self._run(one, "Always" if sidecar else self._policy("OnFailure")))
            if sidecar:
                self._beside.append(task)
                while not one.up and not task.done() and await self._pause(0.005):
                    pass
                continue
            await task
            if one.exit_code != 0:
                self._report()
                return False
        return True

    async def _probed(self, container: Container) -> None:
        """Asks a container that has started until it passes its startup probe; one that fails too often is ended."""
        probe = container.spec.get("startupProbe")
        if not probe:
            return
        # It is asked more often than a kubelet would, so that tests wait for less, but not given up earlier.
        period = probe.get("periodSeconds", 10)
        until = time.monotonic() + period * probe.get("failureThreshold", 3)
        asked = partial(
            passes,
            probe,
            self._world.ports(self._pod),
            on_host=bool(self._pod["spec"].get("hostNetwork")),
            run=container.ran,
        )
        while not self._lost:
            if await asyncio.to_thread(asked):
                container.up = container.running
                self._report()
                return
            if time.monotonic() > until:
                break
            await asyncio.sleep(min(period, 0.1))
        self._tell(
            "Killing", f"Container {container.name} failed startup probe, will be restarted", container
        )
        container.terminate()
        await asyncio.sleep(self._grace_s)
        container.kill()

    @property
    def _grace_s(self) -> float:
        return float(self._pod["spec"].get("terminationGracePeriodSeconds", 30))

    def _policy(self, inits: str = "") -> str:
        policy = str(self._pod["spec"]["restartPolicy"])
        return inits if inits and policy == "Always" else policy

    async def _run_all(self) -> None:
        await asyncio.gather(*(self._run(one, self._policy()) for one in self._containers))
        self._mains_over.set()
        await asyncio.gather(*self._beside)
        self._report()

    async def _run(self, container: Container, policy: str) -> None:
        pause, first = self._world.settings.backoff_s, True
        over = self._mains_over if _stands_beside(container) else self.told_to_end
        while True:
            try:
                container.start()
            except (Missing, OSError) as error:
                missing = isinstance(error, Missing)
                container.wait_for(
                    "CreateContainerConfigError" if missing else "RunContainerError", str(error)
                )
                self._report()
                self._tell("Failed", f"Error: {error}", container, warning=True)
                if not missing or not await self._pause(pause / 10):
                    container.exit_code = 128
                    return
                continue
            self._tell("Created", "Container created", container)
            self._report()
            self._tell("Started", "Container started", container)
            probing = asyncio.ensure_future(self._probed(container))
            await self._until_end(container, over)
            probing.cancel()
            if self._lost:
                return
            restart = policy == "Always" or (policy == "OnFailure" and container.exit_code != 0)
            if not restart or over.is_set() or self.told_to_end.is_set():
                self._report()
                return
            if first:  # a kubelet waits only before the second time
                first = False
                self._report()
                container.crash()
                continue
            name, space = self._key[2], self._key[1]
            back_off = f"back-off {pause:.0f}s restarting failed container={container.name} "
            back_off += f"pod={name}_{space}({self.uid})"
            container.back_off(back_off)
            self._report()
            self._tell("BackOff", f"Back-off restarting failed container {container.name} in pod {name}", container,
                       warning=True)  # fmt: skip
            if not await self._pause(pause, over):
                return
            pause = min(pause * 2, 300)

    async def _until_end(self, container: Container, over: asyncio.Event) -> None:
        """Waits for a container's end; when it is to end, asks it to, and after the grace period kills it."""
        ending = asyncio.ensure_future(container.ended.wait())
        told = asyncio.ensure_future(over.wait())
        await asyncio.wait({ending, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if not ending.done():
            self._tell("Killing", f"Stopping container {container.name}", container)
            container.terminate()
            await self._grace(ending)
            container.kill()
        await ending

    async def _grace(self, ending: asyncio.Future[Any]) -> None:
        """Waits for the end no longer than the pod's grace period, which may be shortened meanwhile."""
        until = time.monotonic() + self._grace_s
        while not ending.done():
            pod = self._world.store.at(self._key)
            if pod is None or pod["metadata"]["uid"] != self.uid:
                return
            deadline = pod["metadata"].get("deletionTimestamp")
            left = (
                clock.parsed(deadline) + 1 - clock.nanoseconds() / 1e9
                if deadline
                else until - time.monotonic()
            )
            if left <= 0:
                return
            await asyncio.wait({ending}, timeout=min(left, 0.2))

    def _report(self) -> None:
        if self._lost:
            return

        def edit(obj: Obj) -> None:
            if obj["metadata"]["uid"] == self.uid:
                pod_status.put_all(obj, self._containers, self._inits)

        with contextlib.suppress(Refused):
            self._world.store.change(self._key, edit)

    def _tell(self, reason: str, message: str, container: Container, *, warning: bool = False) -> None:
        pod = self._world.store.at(self._key)
        if pod is None or self._lost:
            return
        field = f"spec.containers{{{container.name}}}"
        with contextlib.suppress(Refused):
            self._world.event(pod, reason, message, warning=warning, by=_BY, host=self.node, field=field)
