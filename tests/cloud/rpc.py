"""What the stand-ins of Google's gRPC services share: calls meet faults, are answered or refused, and written down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format

from tests.cloud import faults
from tests.cloud.tpu.store import Store, World


class Refused(Exception):
    """A request is answered with an error status."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class WorldIsGone(Exception):
    """What a call was asked of was reset before it could be answered."""


@dataclass(frozen=True)
class Method:
    """One method of a service: types of request and reply, what answers, and what those hear who may not ask."""

    request: Any
    reply: Any
    answer: Callable[[World, Any], Any]
    denied: Callable[[Any], str]


class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the call by the full name of its method."""

    def __init__(
        self,
        store: Store,
        methods: Mapping[str, Method],
        mutating: Set[str],
        advance: Callable[[World, float], object],
        check: Callable[[World, str, str, Any], object] = lambda world, authorization, name, request: None,
    ) -> None:
        """`methods` go by full names, `mutating` by short ones; `advance` lets time pass in the world.

        `check` refuses those who may not: it gets who asks (`authorization` of the call), for what, and the request.
        """
        self._store, self._methods, self._mutating, self._advance = store, methods, mutating, advance
        self._check = check

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """See grpc.GenericRpcHandler."""
        method = self._methods.get(details.method)
        if method is None:
            return None
        request, reply = method.request, method.reply
        return grpc.unary_unary_rpc_method_handler(
            self._answer(details.method.rsplit("/", 1)[1], method),
            request_deserializer=getattr(request, "deserialize", None) or request.FromString,
            response_serializer=getattr(reply, "serialize", None) or reply.SerializeToString,
        )

    def _answer(self, name: str, method: Method) -> Callable[[Any, grpc.ServicerContext], Any]:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            fault, born = faults.due(self._store, name, self._mutating)
            action = fault.get("action")
            mutating = name in self._mutating
            entry = {"method": name, "request": as_json(request), "mutating": mutating, "fault": action}
            if action == "kill_before":
                self._store.log(**entry, outcome="never")
                faults.kill_peer(context.peer())
                context.abort(grpc.StatusCode.CANCELLED, "the caller is dead")
            if action == "error":
                self._store.log(**entry, outcome=fault["code"])
                context.abort(grpc.StatusCode[fault["code"]], fault.get("message", "injected"))
            if action == "stall":
                time.sleep(fault["seconds"])
            try:
                told = dict(context.invocation_metadata()).get("authorization", "")
                reply = self._call(name, method, request, born, str(told))
            except WorldIsGone:
                context.abort(grpc.StatusCode.CANCELLED, "the world that was asked is no more")
            except Refused as refused:
                self._store.log(**entry, outcome=refused.code, message=refused.message)
                context.abort(grpc.StatusCode[refused.code], refused.message)
            self._store.log(**entry, outcome="OK")
            if action == "kill_after":
                faults.kill_peer(context.peer())
            if action == "lose_reply":
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            return reply

        return answer

    def _call(self, name: str, method: Method, request: Any, born: int, authorization: str) -> Any:
        with self._store.changing() as world:
            if world["born"] != born:  # a test reset it while this call was stalled
                raise WorldIsGone
            if name in world["settings"]["denied"]:
                raise Refused("PERMISSION_DENIED", method.denied(request))
            self._check(world, authorization, name, request)
            self._advance(world, time.time())
            reply = method.answer(world, request)
            self._advance(world, time.time())
            return reply


def as_json(request: Any) -> Any:
    """Returns a request as a document."""
    raw = type(request).pb(request) if hasattr(type(request), "pb") else request
    return json_format.MessageToDict(raw, preserving_proto_field_name=True)


def serve(handler: Handler, port: int) -> tuple[grpc.Server, int]:
    """Starts serving on loopback; returns the server and its port (`port` 0: any free one)."""
    server = grpc.server(futures.ThreadPoolExecutor(32), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((handler,))
    bound: int = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, bound
