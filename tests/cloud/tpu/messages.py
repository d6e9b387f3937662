"""Turns what the stand-in remembers into the messages of Cloud TPU's API."""

from __future__ import annotations

import datetime
from typing import Any

from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, json_format

from tests.cloud.tpu.catalog import kinds_in
from tests.cloud.tpu.store import World


def node_message(world: World, name: str) -> tpu_v2.Node:
    """Returns a node as `GetNode` tells it."""
    stored = world["nodes"][name]
    message = tpu_v2.Node(stored["spec"])
    message.name = name
    message.id = stored["id"]
    message.state = tpu_v2.Node.State[stored["state"]]
    message.accelerator_type = stored["kind"]
    message.create_time = _time(stored["created"])
    message.health = tpu_v2.Node.Health.HEALTHY
    message.queued_resource = stored["queued"] or ""
    message.multislice_node = stored["multislice"]
    shown = stored["hosts"] if stored["state"] in ("READY", "RESTARTING", "REPAIRING") else []
    shown = shown[: len(shown) - world["settings"]["missing_workers"]]
    message.network_endpoints = [_endpoint(world, index) for index in shown]
    return message


def address(world: World, index: int) -> tuple[str, str]:
    """Returns the internal and the external address of a host."""
    if index < len(world["hosts"]):
        host = world["hosts"][index]
        return host.get("internal", host["address"]), host.get("external", host["address"])
    return f"10.{index // 65536 % 256}.{index // 256 % 256}.{index % 256}", f"203.0.113.{index % 256}"


def _endpoint(world: World, index: int) -> tpu_v2.NetworkEndpoint:
    internal, external = address(world, index)
    endpoint = tpu_v2.NetworkEndpoint(ip_address=internal, port=8470)
    if world["settings"]["external_addresses"]:
        endpoint.access_config = tpu_v2.AccessConfig(external_ip=external)
    return endpoint


def queued_message(world: World, name: str) -> tpu_v2.QueuedResource:
    """Returns a queued resource as `GetQueuedResource` tells it."""
    stored = world["queued"][name]
    raw = json_format.ParseDict(stored["spec"], tpu_v2.QueuedResource.pb(tpu_v2.QueuedResource()))
    message = tpu_v2.QueuedResource.wrap(raw)
    message.name = name
    message.create_time = _time(stored["created"])
    state = tpu_v2.QueuedResourceState(
        state=tpu_v2.QueuedResourceState.State[stored["state"]],
        state_initiator=tpu_v2.QueuedResourceState.StateInitiator[stored["initiator"]],
    )
    if stored["error"]:
        code, text = stored["error"]
        state.failed_data = tpu_v2.QueuedResourceState.FailedData(error={"code": code, "message": text})
    message.state = state
    return message


def operation_message(world: World, name: str) -> operations_pb2.Operation:
    """Returns an operation as `GetOperation` tells it."""
    stored = world["operations"][name]
    operation = operations_pb2.Operation(name=name, done=stored["done"])
    metadata = tpu_v2.OperationMetadata(
        target=stored["target"], verb=stored["verb"], api_version="v2", create_time=_time(stored["created"])
    )
    operation.metadata.Pack(tpu_v2.OperationMetadata.pb(metadata))
    if not stored["done"]:
        return operation
    if stored["error"]:
        operation.error.code, operation.error.message = stored["error"]
    elif stored["target"] in world["nodes"]:
        operation.response.Pack(tpu_v2.Node.pb(node_message(world, stored["target"])))
    elif stored["target"] in world["queued"]:
        operation.response.Pack(tpu_v2.QueuedResource.pb(queued_message(world, stored["target"])))
    else:
        operation.response.Pack(empty_pb2.Empty())
    return operation


def guest_attributes(
    world: World, name: str, query: str, workers: list[str]
) -> tpu_v2.GetGuestAttributesResponse:
    """Returns what the guests of a node published: their SSH host keys; asked for everything, also their names."""
    node = world["nodes"][name]
    answer = []
    for worker, index in enumerate(node["hosts"]):
        host: dict[str, Any] = world["hosts"][index] if index < len(world["hosts"]) else {}
        if (workers and str(worker) not in workers) or not host.get("host_key"):
            continue
        kind, _, key = host["host_key"].partition(" ")
        entries = [tpu_v2.GuestAttributesEntry(namespace="hostkeys", key=kind, value=key)]
        if not query:
            entries.append(
                tpu_v2.GuestAttributesEntry(
                    namespace="guest", key="hostname", value=f"t1v-{index}-w-{worker}"
                )
            )
        value = tpu_v2.GuestAttributesValue(
            items=entries if not query or query.startswith("hostkeys") else []
        )
        answer.append(tpu_v2.GuestAttributes(query_path=query, query_value=value))
    return tpu_v2.GetGuestAttributesResponse(guest_attributes=answer)


def types_in(zone: str, project: str) -> list[tpu_v2.AcceleratorType]:
    """Returns the types that a zone offers."""
    parent = f"projects/{project}/locations/{zone}/acceleratorTypes"
    return [tpu_v2.AcceleratorType(name=f"{parent}/{kind.name}", type_=kind.name) for kind in kinds_in(zone)]


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
