"""The API server: requests to kinds, answered from the store; faults strike here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import orjson
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from tests.cloud.kubernetes import bodies, clock, discovery, faults, log_requests, refusals, writing
from tests.cloud.kubernetes.calls import Call, parse
from tests.cloud.kubernetes.listing import listed
from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.watching import shown
from tests.cloud.kubernetes.watching import stream as watch_stream

if TYPE_CHECKING:
    from tests.cloud.kubernetes.connections import Connections
    from tests.cloud.kubernetes.world import World

JSON = "application/json"
_FORMS = (JSON, "application/yaml", "application/vnd.kubernetes.protobuf")


class Api:
    """Answers requests; one for all methods and paths."""

    def __init__(self, world: World, connections: Connections) -> None:
        """Serves one cluster over connections that it may cut."""
        self._world = world
        self._connections = connections

    async def answer(self, request: Request) -> Response:
        """Answers any request."""
        try:
            answered = await self._authorised(request)
        except Refused as refused:
            answered = _refusal(refused)
        answered.headers["date"] = clock.http_text()
        return answered

    async def _authorised(self, request: Request) -> Response:
        token = self._world.settings.token
        if token and request.headers.get("authorization") != f"Bearer {token}":
            raise Refused(401, "Unauthorized")
        told = discovery.answer(request.url.path, self._world.registry)
        if told is not None:
            return PlainTextResponse(told) if isinstance(told, str) else answer(told)
        call = parse(request, self._world.registry)
        if call is not None and request.method == "POST" and call.content not in _FORMS:
            told = "the body of the request was in an unknown format - accepted media types include: "
            raise Refused(415, told + ", ".join(_FORMS))
        if call is None:
            return PlainTextResponse("404 page not found\n", 404)
        if request.method == "GET" or request.method == "DELETE":
            body = await request.body()
        else:
            body = bodies.required(await request.body())
        return await self._struck(request, call, body)

    async def _struck(self, request: Request, call: Call, body: bytes) -> Response:
        """Answers a call, with the fault that strikes it, if any."""
        world = self._world
        plural = call.resource.plural
        name = call.name or bodies.name_in(body)
        world.faults.seen.append(f"{call.verb} {plural} {call.namespace}/{name}")
        fault = world.faults.due(call.verb, plural, name, call.sub if call.verb != "log" else "")
        action = fault.get("action", "")
        client = (request.client.host, request.client.port) if request.client else None
        if action == "error":
            raise faults.refusal(fault)
        if action == "stall":
            await asyncio.sleep(float(fault.get("seconds", 1.0)))
        if action == "drop":
            return self._connections.abort(client)
        if action == "kill_before":
            faults.kill(fault, client)
            return self._connections.abort(client)
        response = await self._done(call, body)
        if action == "lose_reply":
            return self._connections.abort(client)
        if action == "kill_after":
            faults.kill(fault, client)
        return response

    async def _done(self, call: Call, body: bytes) -> Response:
        world = self._world
        match call.verb:
            case "get":
                found = world.store.at(call.key)
                if found is None:
                    raise refusals.not_found(call.resource.qualified, call.name)
                return answer(shown(call, found), call)
            case "list":
                return answer(listed(world, call), call)
            case "watch":
                call.selection()
                call.since(world.store.rv)
                return streaming(
                    watch_stream(world, call, world.faults.cuts["watch"]), JSON, self._connections
                )
            case "log":
                lines = log_requests.lines(world, call)
                if lines is None:
                    return Response(status_code=204)
                return streaming(lines, "text/plain", self._connections)
        code, obj, warnings = writing.write(world, call, body)
        return answer(shown(call, obj) if obj.get("kind") != "Status" else obj, call, code, warnings)


def answer(
    obj: Any, call: Call | None = None, code: int = 200, warnings: list[str] | None = None
) -> Response:
    """Returns an object as JSON; what is deprecated or ignored is told in Warning headers."""
    response = Response(orjson.dumps(obj), code, media_type=None, headers={"content-type": JSON})
    told = list(warnings or [])
    if call and call.version != call.resource.version:
        resource = call.resource
        told.append(
            f"{resource.group}/{call.version} {resource.kind} is deprecated; use {resource.api_version}"
        )
    for one in told:
        quoted = one.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.append("warning", f'299 - "{quoted}"')
    return response


def streaming(lines: AsyncIterator[bytes], kind: str, connections: Connections) -> Response:
    """Returns a response that goes on while lines come."""
    return StreamingResponse(
        connections.counted(lines), headers={"content-type": kind, "cache-control": "no-cache"}
    )


def _refusal(refused: Refused) -> Response:
    response = answer(refused.status(), code=refused.code)
    if "retryAfterSeconds" in refused.details:
        response.headers["retry-after"] = str(refused.details["retryAfterSeconds"])
    return response


__all__ = ["Api", "answer"]
