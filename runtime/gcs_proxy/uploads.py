"""Uploads of whole objects in one request: what comes is sealed and sent on as one multipart upload, or one XML PUT."""

from __future__ import annotations

import contextlib
import json
import re
import secrets

from runtime.contract.keymap import KeyRef
from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.ambiguity import refuse_signed_body
from runtime.gcs_proxy.format import Layout, number
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.messages import Body
from runtime.gcs_proxy.metadata import masked, send
from runtime.gcs_proxy.passing import asked_of_store, relay, without_conditions
from runtime.gcs_proxy.refusal import Refused, invalid, unavailable
from runtime.gcs_proxy.related import MediaPart, open_related
from runtime.gcs_proxy.resources import Resource, crc32c_text, custom, parse, refuse_ours, uploaded
from runtime.gcs_proxy.routes import Route, object_path, upload_path, with_query
from runtime.gcs_proxy.seal import Sealer
from runtime.gcs_proxy.sealing import (
    Checksums,
    Plaintext,
    Source,
    refuse_compressed,
    send_sealed,
    told_checksums,
)
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.upstream import Answer, Exchange
from runtime.gcs_proxy.wire import Closed

_ANY_TYPE = "application/octet-stream"
_ANSWER_LIMIT = 1 << 20
_OURS = re.compile(f"(?i)x-(?:goog|amz)-meta-{envelope.PREFIX}")
NEEDED = ("size", "metadata", "name", "bucket", "generation", "crc32c")
"""What is to be known of an object that was stored, whatever of it the client asks for."""


def upload_media(gate: Gateway, client: Client, route: Route, key: KeyRef) -> None:
    """Answers an upload whose body is the plaintext. Raises Refused, Closed."""
    headers = client.request.headers
    resource: Resource = {"contentType": headers.get("content-type") or _ANY_TYPE}
    _upload(gate, client, route, key, resource, client.body, told_checksums(headers))


def upload_multipart(
    gate: Gateway, client: Client, route: Route, resource: Resource, part: MediaPart, key: KeyRef
) -> None:
    """Answers an upload whose body is JSON and then the plaintext. Raises Refused, Closed."""
    told = told_checksums(client.request.headers, resource.items())
    refuse_ours(custom(resource))
    resource.setdefault("contentType", part.content_type or _ANY_TYPE)
    _upload(gate, client, route, key, resource, part.plaintext(), told)


def opened_multipart(client: Client) -> tuple[Resource, MediaPart]:
    """Returns the JSON and the plaintext of a multipart upload, of which the JSON was read. Raises Refused (400)."""
    return open_related(client.body, client.request.headers.get("content-type"))


def _upload(
    gate: Gateway,
    client: Client,
    route: Route,
    key: KeyRef,
    resource: Resource,
    body: Source,
    told: Checksums,
) -> None:
    refuse_compressed(client.request.headers)
    data_key, sealed_for = gate.new_key(key, route.bucket, route.name)
    sent = {name: value for name, value in resource.items() if name not in ("md5Hash", "crc32c", "size")}
    sent |= {"name": route.name, "metadata": {**custom(resource), **sealed_for.metadata()}}
    boundary = secrets.token_hex(16)
    before = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(sent)}\r\n"
        f"--{boundary}\r\nContent-Type: {_ANY_TYPE}\r\n\r\n"
    ).encode()
    after = f"\r\n--{boundary}--\r\n".encode()
    plain = Plaintext(
        Sealer(data_key, sealed_for.object_id, sealed_for.layout), told, always_md5=gate.always_md5
    )
    length = body.left if isinstance(body, Body) else None
    total = None if length is None else len(before) + Layout().sealed_size(length) + len(after)
    headers = asked_of_store(client.request.headers)
    headers.fields.append(("Content-Type", f"multipart/related; boundary={boundary}"))
    query = masked(route, *NEEDED, uploadType="multipart", name=route.name)
    target = with_query(upload_path(route.bucket), query)
    with gate.pool.open("POST", target, headers, total, chunked=total is None) as exchange:
        whole = (
            exchange.send(before)
            and send_sealed(exchange, client.wire, body, plain, gate.budget)
            and exchange.send(after)
        )
        answer = finished(gate, client, exchange, whole=whole)
    if answer:
        check_kept(gate, client, route, parse(answer.content), plain.sealer)
        send(client, answer, lambda stored: confirmed(stored, client, plain))


def finished(gate: Gateway, client: Client, exchange: Exchange, *, whole: bool) -> Answer | None:
    """Returns what the store says of an object that it was sent; None where that is not 2xx, and was told."""
    response = exchange.answer(whole=whole)
    if not 200 <= response.status < 300:
        relay(gate, client, response)
        return None
    if not whole:
        raise unavailable("the store says that it has the object before all of it was sent")
    try:
        content = response.body.read_all(_ANSWER_LIMIT)
    except Closed as error:
        raise unavailable(f"the store broke off: {error}") from error
    return Answer(response.status, response.reason, response.headers, content)


def confirmed(stored: Resource, client: Client, plain: Plaintext) -> Resource:
    """Returns what the upload of a whole plaintext is answered with. Raises Refused (503)."""
    sealer = plain.sealer
    if stored.get("size", kept := str(sealer.layout.sealed_size(sealer.plain))) != kept:
        raise unavailable("the store kept another number of bytes than it was sent")
    if not stored.get("size") or not stored.get("crc32c"):
        raise unavailable("the store does not say what it kept of what it was sent")
    return uploaded(
        stored, client.origin, sealer.plain, sealer.crc32c, plain.md5.digest() if plain.md5 else None
    )


def check_kept(gate: Gateway, client: Client, route: Route, stored: Resource, sealer: Sealer) -> None:
    """Raises Refused (503) where the store has other bytes than it was sent: they are taken away again."""
    if stored.get("crc32c", "") in ("", crc32c_text(sealer.sealed_crc32c)):
        return
    if number(generation := stored.get("generation")) is not None:
        with contextlib.suppress(Refused):
            target = with_query(
                object_path(route.bucket, route.name), route.aside(generation=str(generation))
            )
            gate.pool.ask("DELETE", target, without_conditions(client.request.headers))
    raise unavailable("the store kept other bytes than it was sent")


def upload_xml(gate: Gateway, client: Client, route: Route, key: KeyRef) -> None:
    """Answers a PUT of the XML API. Raises Refused, Closed."""
    headers = client.request.headers
    if any(_OURS.match(name) for name, _ in headers):
        raise invalid(f"metadata may not be named {envelope.PREFIX}…: those are the proxy's")
    if headers.has("x-goog-copy-source") or headers.has("x-amz-copy-source") or route.query:
        raise invalid(
            "of the XML API's PUTs of encrypted objects, only those that upload a whole object are carried out"
        )
    refuse_signed_body(headers)
    told = told_checksums(headers)
    data_key, sealed_for = gate.new_key(key, route.bucket, route.name)
    plain = Plaintext(
        Sealer(data_key, sealed_for.object_id, sealed_for.layout), told, always_md5=gate.always_md5
    )
    sent = asked_of_store(headers)
    sent.fields += [(f"x-goog-meta-{name}", value) for name, value in sealed_for.metadata().items()]
    sent.fields.append(("Content-Type", headers.get("content-type") or _ANY_TYPE))
    left = client.body.left
    total = None if left is None else Layout().sealed_size(left)
    with gate.pool.open("PUT", client.request.target, sent, total, chunked=total is None) as exchange:
        whole = send_sealed(exchange, client.wire, client.body, plain, gate.budget)
        answer = finished(gate, client, exchange, whole=whole)
    if answer:
        hashes = re.search(r"crc32c=([^, ]+)", ",".join(answer.headers.all("x-goog-hash")))
        stored = {
            "crc32c": hashes[1] if hashes else "",
            "generation": answer.headers.get("x-goog-generation"),
        }
        check_kept(gate, client, route, stored, plain.sealer)
        fields = answer.headers.without(("x-goog-hash", "etag", "x-goog-stored-content-length")).fields
        fields.append(("x-goog-hash", f"crc32c={crc32c_text(plain.sealer.crc32c)}"))
        fields.append(("x-goog-stored-content-length", str(plain.sealer.plain)))
        client.answer(answer.status, fields, answer.content, answer.reason)
