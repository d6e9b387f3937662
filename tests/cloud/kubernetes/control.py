"""The side door for tests, at a port of its own: settings, faults, outages, nodes, logs, and what is left."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.cloud.kubernetes import clock, inventory, nodes
from tests.cloud.kubernetes.faults import ACTIONS

if TYPE_CHECKING:
    from tests.cloud.kubernetes.cluster import Cluster


class Control:
    """What tests can do to a cluster behind its back."""

    def __init__(self, cluster: Cluster) -> None:
        """Controls one cluster."""
        self._cluster = cluster
        self._world = cluster.world

    def app(self) -> Starlette:
        """Returns the application; every action is `POST /_standin/<name>` with a JSON object."""
        routes = [Route("/_standin/inventory", self._inventory, methods=["GET"])]
        for name in (
            "settings",
            "faults",
            "cut",
            "compact",
            "down",
            "up",
            "skew",
            "empty",
            "nodes",
            "lose_node",
            "write_log",
            "seen",
        ):
            routes.append(Route(f"/_standin/{name}", self._action(name), methods=["POST"]))
        return Starlette(routes=routes)

    def _action(self, name: str) -> Any:
        act = getattr(self, f"_{name}")

        async def handle(request: Request) -> Response:
            told = await request.json()
            try:
                answer = act(told)
                return JSONResponse((await answer if inspect.isawaitable(answer) else answer) or {})
            except (KeyError, ValueError, TypeError) as error:
                return JSONResponse({"error": f"{type(error).__name__}: {error}"}, 400)

        return handle

    async def _inventory(self, request: Request) -> Response:
        del request
        return JSONResponse(inventory.taken(self._cluster))

    def _settings(self, told: dict[str, Any]) -> None:
        self._world.settings.change(told)

    def _faults(self, told: dict[str, Any]) -> None:
        """Sets the faults that wait: {"faults": [...]}, see `faults.Fault`."""
        for fault in told["faults"]:
            if fault.get("action") not in ACTIONS:
                raise ValueError(f"no action {fault.get('action')!r}; there are {sorted(ACTIONS)}")
        self._world.faults.waiting = told["faults"]

    def _seen(self, told: dict[str, Any]) -> dict[str, Any]:
        """Returns the calls that came since the last time this was asked."""
        del told
        seen, self._world.faults.seen = self._world.faults.seen, []
        return {"calls": seen, "faults": self._world.faults.waiting}

    def _cut(self, told: dict[str, Any]) -> None:
        """Cuts streams: {"what": "watch" | "log"}, or all connections: {"what": "all"}."""
        if told["what"] == "all":
            self._cluster.connections.abort_all()
        else:
            self._world.faults.cut(told["what"])

    def _compact(self, told: dict[str, Any]) -> None:
        del told
        self._world.store.compact()

    async def _down(self, told: dict[str, Any]) -> None:
        """Takes the API away until it is told `up`: connections break, new ones are refused; all else goes on."""
        del told
        await self._cluster.api.close()

    async def _up(self, told: dict[str, Any]) -> None:
        del told
        await self._cluster.api.open()

    def _skew(self, told: dict[str, Any]) -> None:
        clock.skew(float(told["seconds"]))

    def _empty(self, told: dict[str, Any]) -> None:
        """Takes away all that anybody made, so that the cluster is as it was at its beginning."""
        del told
        inventory.emptied(self._cluster)

    def _nodes(self, told: dict[str, Any]) -> dict[str, Any]:
        """Adds nodes: {"pools": [{pool, count, labels, taints, resources}]}."""
        return {"nodes": nodes.add_pools(self._world, told["pools"])}

    def _lose_node(self, told: dict[str, Any]) -> None:
        """Lets a node vanish: {"name": …, "deleted": false}; what ran there is dead, and only silence says so."""
        if self._cluster.kubelet:
            nodes.lose(self._world, self._cluster.kubelet, told["name"], deleted=bool(told.get("deleted")))

    def _write_log(self, told: dict[str, Any]) -> None:
        """Adds lines to a container's log: {"namespace", "pod", "container", "lines": [...]}."""
        pod = self._world.store.get("pods", told["namespace"], told["pod"])
        if pod is None:
            raise KeyError(told["pod"])
        container = told.get("container") or pod["spec"]["containers"][0]["name"]
        log = self._world.logs.find(pod["metadata"]["uid"], container)
        if log is None:
            raise KeyError(container)
        for line in told["lines"]:
            log.write(line.encode() + b"\n")
