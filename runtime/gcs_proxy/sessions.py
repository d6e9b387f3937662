"""Begins resumable uploads: the client's session is ours, the store's is behind it."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import quote, urlsplit

from runtime.gcs_proxy.format import Layout, number
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.metadata import masked
from runtime.gcs_proxy.passing import asked_of_store
from runtime.gcs_proxy.refusal import Refused, unavailable
from runtime.gcs_proxy.resources import JSON, custom, one_name, parse_clients, refuse_ours
from runtime.gcs_proxy.routes import Route, as_read, upload_path, with_query
from runtime.gcs_proxy.seal import Sealer
from runtime.gcs_proxy.sealing import Plaintext, told_checksums
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.upload_state import Session
from runtime.gcs_proxy.uploads import NEEDED
from runtime.gcs_proxy.wire import Headers

_BODY_LIMIT = 1 << 20


def begin(gate: Gateway, client: Client, route: Route) -> None:
    """Answers what begins a resumable upload. Raises Refused, Closed."""
    content = client.body.read_all(_BODY_LIMIT)
    resource = parse_clients(content)
    route = replace(route, name=one_name(route.name, resource))
    if not route.name:
        raise Refused(400, "required", "Required parameter: name")
    key = gate.key_map.key(route.bucket, route.name)
    headers = client.request.headers
    if key is None:
        # The store's own session is known to us alone, as all are in a bucket where some objects are encrypted.
        told = Headers([*headers.without(("content-type",)), JSON])  # as it was read here
        _opened(gate, client, route, as_read(route), told, content, None)
        return
    checksums = told_checksums(headers, resource.items())
    refuse_ours(custom(resource))
    data_key, sealed_for = gate.new_key(key, route.bucket, route.name)
    sent = {name: value for name, value in resource.items() if name not in ("md5Hash", "crc32c", "size")}
    sent |= {"name": route.name, "metadata": {**custom(resource), **sealed_for.metadata()}}
    if kind := headers.get("x-upload-content-type"):
        sent.setdefault("contentType", kind)
    upstream = asked_of_store(headers).without(("x-upload-content-length",))
    length = number(headers.get("x-upload-content-length"))
    if length is not None:
        upstream.fields.append(("X-Upload-Content-Length", str(Layout().sealed_size(length))))
    upstream.fields.append(JSON)
    target = with_query(upload_path(route.bucket), masked(route, *NEEDED, name=route.name))
    plain = Plaintext(
        Sealer(data_key, sealed_for.object_id, sealed_for.layout), checksums, always_md5=gate.always_md5
    )
    _opened(gate, client, route, target, upstream, json.dumps(sent).encode(), plain)


def _opened(
    gate: Gateway,
    client: Client,
    route: Route,
    target: str,
    headers: Headers,
    content: bytes,
    plain: Plaintext | None,
) -> None:
    """Opens the store's session, and answers with one of ours for it."""
    answer = gate.pool.ask("POST", target, headers, content)
    if not answer.ok:
        client.answer(answer.status, answer.headers, answer.content, answer.reason)
        return
    session = Session(route.bucket, route.name, _target_of(answer.headers.get("location")), plain)
    session.total = number(client.request.headers.get("x-upload-content-length"))
    if plain:
        session.settle()
    upload = gate.sessions.add(session)
    place = (
        f"{client.origin}{upload_path(route.bucket)}?uploadType=resumable&name={quote(route.name, safe='')}"
    )
    client.answer(200, [("Location", f"{place}&upload_id={upload}")], b"")


def _target_of(location: str) -> str:
    """Returns path and query of the store's session; where it is, we know ourselves."""
    parts = urlsplit(location)
    if not parts.path.startswith(("/upload/", "/resumable/upload/")) or "upload_id=" not in parts.query:
        raise unavailable("the store opened no session for the upload")
    return f"{parts.path}?{parts.query}"
