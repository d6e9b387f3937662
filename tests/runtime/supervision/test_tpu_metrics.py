"""The call to libtpu's metric service, against gRPC's own server with messages made by the protobuf library."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from runtime.supervision import tpu_metrics

SERVICE = "tpu.monitoring.runtime.RuntimeMetricService"
GIB = 1 << 30
ANSWERS: dict[str, dict[int, float | int]] = {
    "tpu.runtime.hbm.memory.usage.bytes": {0: 3 * GIB, 1: 0, 3: 2 * GIB + 1},
    "tpu.runtime.hbm.memory.total.bytes": {0: 16 * GIB, 1: 16 * GIB, 3: 16 * GIB},
    "tpu.runtime.tensorcore.dutycycle.percent": {0: 98.5, 1: 0.0},
}


def _messages() -> tuple[type[Any], type[Any]]:
    """Returns request and response, made of what is published of the service: only the parts that are used."""
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="t", syntax="proto3")
    fields: dict[str, list[tuple[str, int, str]]] = {
        "Gauge": [("as_double", 1, "double"), ("as_int", 2, "int64")],
        "AttrValue": [("string_attr", 1, "string"), ("int_attr", 3, "int64")],
        "Attribute": [("key", 1, "string"), ("value", 2, "AttrValue")],
        "Stamp": [("seconds", 1, "int64"), ("nanos", 2, "int32")],
        "Metric": [("attribute", 1, "Attribute"), ("timestamp", 2, "Stamp"), ("gauge", 3, "Gauge")],
        "TPUMetric": [("name", 1, "string"), ("description", 2, "string"), ("metrics", 3, "*Metric")],
        "Request": [("metric_name", 1, "string")],
        "Response": [("metric", 1, "TPUMetric")],
    }
    kinds = {"double": 1, "int64": 3, "int32": 5, "string": 9}
    for name, members in fields.items():
        message = file.message_type.add(name=name)
        if name == "Gauge":
            message.oneof_decl.add(name="value")
        for member, number, kind in members:
            field = message.field.add(name=member, number=number, label=3 if kind[0] == "*" else 1)
            kind = kind.lstrip("*")
            field.type = kinds.get(kind, 11)
            if kind not in kinds:
                field.type_name = f".t.{kind}"
            if name == "Gauge":
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    request, response = (pool.FindMessageTypeByName(f"t.{name}") for name in ("Request", "Response"))
    return message_factory.GetMessageClass(request), message_factory.GetMessageClass(response)


REQUEST, RESPONSE = _messages()


def _get(request: Any, context: grpc.ServicerContext) -> Any:
    if request.metric_name not in ANSWERS:
        context.abort(grpc.StatusCode.NOT_FOUND, "no such metric")
    response = RESPONSE()
    response.metric.name = request.metric_name
    for device, value in ANSWERS[request.metric_name].items():
        metric = response.metric.metrics.add()
        metric.attribute.key = "device-id"
        metric.attribute.value.int_attr = device
        metric.timestamp.seconds = 1764312000
        if isinstance(value, int):
            metric.gauge.as_int = value
        else:
            metric.gauge.as_double = value
    return response


@pytest.fixture
def serve() -> Iterator[Callable[[grpc.ServerCredentials | None], tuple[str, int]]]:
    servers: list[grpc.Server] = []

    def start(credentials: grpc.ServerCredentials | None) -> tuple[str, int]:
        handler = grpc.unary_unary_rpc_method_handler(
            _get, request_deserializer=REQUEST.FromString, response_serializer=RESPONSE.SerializeToString
        )
        server = grpc.server(futures.ThreadPoolExecutor(2))
        methods = {"GetRuntimeMetric": handler}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        if credentials is None:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        servers.append(server)
        return "127.0.0.1", port

    yield start
    for server in servers:
        server.stop(0).wait()


Serve = Callable[[grpc.ServerCredentials | None], tuple[str, int]]


@pytest.mark.parametrize("credentials", [None, "local"])
def test_what_the_runtime_says_is_read_by_device(
    serve: Serve, credentials: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tpu_metrics, "_LIMIT_S", 60.0)
    address = serve(grpc.local_server_credentials() if credentials else None)
    assert tpu_metrics.read(address) == {
        "0": {"memory_used_bytes": 3.0 * GIB, "memory_total_bytes": 16.0 * GIB, "duty_cycle_percent": 98.5},
        "1": {"memory_used_bytes": 0.0, "memory_total_bytes": 16.0 * GIB, "duty_cycle_percent": 0.0},
        "3": {"memory_used_bytes": 2.0 * GIB + 1, "memory_total_bytes": 16.0 * GIB},
    }


def test_a_metric_that_the_runtime_lacks_hides_nothing_that_came_before(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tpu_metrics, "_LIMIT_S", 60.0)
    monkeypatch.delitem(ANSWERS, "tpu.runtime.tensorcore.dutycycle.percent")
    assert set(tpu_metrics.read(serve(None))["0"]) == {"memory_used_bytes", "memory_total_bytes"}


def test_where_nobody_listens_there_is_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()
    assert tpu_metrics.read(free) == {}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff" * 4096,
        b"\x00\x00\x05\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x00\x63",
    ],
)
def test_what_is_no_tpu_is_nothing(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def say() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        threading.Thread(target=say, daemon=True).start()
        assert tpu_metrics.read(server.getsockname()) == {}


def test_one_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpu_metrics, "_LIMIT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert tpu_metrics.read(server.getsockname()) == {}
