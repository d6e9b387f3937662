"""What is known of objects, and changes of it: sizes are the plaintext's, our entries stay and are not seen."""

from __future__ import annotations

import json
from collections.abc import Callable

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.passing import asked_of_store, without_conditions
from runtime.gcs_proxy.refusal import invalid, unavailable, unsupported
from runtime.gcs_proxy.resources import (
    Resource,
    custom,
    is_encrypted,
    parse,
    parse_clients,
    refuse_ours,
    shown,
    shown_list,
)
from runtime.gcs_proxy.routes import Route, object_path, with_query
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.upstream import Answer

_LIST_LIMIT = 16 << 20
_BODY_LIMIT = 1 << 20
_TRIES = 4
_NEEDED = ("size", "metadata", "name", "bucket")


def describe(gate: Gateway, client: Client, route: Route) -> None:
    """Answers a GET or HEAD of an object's metadata. Raises Refused, Closed."""
    target = with_query(object_path(route.bucket, route.name), masked(route, *_NEEDED))
    answer = gate.pool.ask(client.request.method, target, asked_of_store(client.request.headers))
    send(client, answer, lambda resource: shown(resource, client.origin))


def list_objects(gate: Gateway, client: Client, route: Route) -> None:
    """Answers a list of a bucket's objects. Raises Refused, Closed."""
    if route.xml:
        raise unsupported(
            "the XML API's lists would tell the sizes of encrypted objects wrongly: use the JSON API"
        )
    target = with_query(client.request.target.partition("?")[0], masked(route, f"items({','.join(_NEEDED)})"))
    answer = gate.pool.ask(
        client.request.method, target, asked_of_store(client.request.headers), limit=_LIST_LIMIT
    )
    send(client, answer, lambda listed: shown_list(listed, client.origin))


def change(gate: Gateway, client: Client, route: Route) -> None:
    """Answers a PATCH or PUT of an object's metadata; our entries stay. Raises Refused, Closed."""
    wanted = parse_clients(client.body.read_all(_BODY_LIMIT))
    changed = wanted.get("metadata")
    if changed is not None and not isinstance(changed, dict):
        raise invalid("metadata are not text by name")
    refuse_ours(changed or {})
    whole = route.verb == "PUT"
    for last in (False,) * (_TRIES - 1) + (True,):
        more: dict[str, str] = {}
        if whole or ("metadata" in wanted and changed is None):
            found = current_of(gate, client, route, route.get("generation"))
            if found.ok and is_encrypted(current := parse(found.content)):
                wanted["metadata"] = _all_but_ours(current, changed, whole=whole)
                more = _unless_changed(route, current)
        target = with_query(object_path(route.bucket, route.name), masked(route, *_NEEDED, **more))
        headers = asked_of_store(client.request.headers)
        headers.fields.append(("Content-Type", "application/json"))
        answer = gate.pool.ask(client.request.method, target, headers, json.dumps(wanted).encode())
        if last or not more or answer.status != 412:
            break
    send(client, answer, lambda resource: shown(resource, client.origin))


def _unless_changed(route: Route, current: Resource) -> dict[str, str]:
    """Returns conditions by which nobody else has changed an object since we looked: its key would get lost.

    A new generation begins with the same metageneration as others.
    """
    if not {"generation", "metageneration"} <= current.keys():
        raise unavailable("the store does not say which generation the object is of")
    now = {"ifGenerationMatch": current["generation"], "ifMetagenerationMatch": current["metageneration"]}
    return {name: route.get(name) or str(value) for name, value in now.items()}


def current_of(gate: Gateway, client: Client, route: Route, generation: str = "") -> Answer:
    """Returns what the store says of an object."""
    headers = without_conditions(client.request.headers)
    target = with_query(object_path(route.bucket, route.name), route.aside(generation=generation))
    return gate.pool.ask("GET", target, headers)


def send(client: Client, answer: Answer, change: Callable[[Resource], Resource]) -> None:
    """Answers with what the store said, changed where that is 2xx and JSON. Raises Closed."""
    content, headers = answer.content, answer.headers
    if answer.ok and content and client.request.method != "HEAD":
        content = json.dumps(change(parse(content))).encode()
        headers = headers.without(("x-goog-hash", "content-type"))
        headers.fields.append(("Content-Type", "application/json; charset=UTF-8"))
    client.answer(answer.status, headers, content, answer.reason)


def _all_but_ours(current: Resource, changed: object, *, whole: bool) -> dict[str, object]:
    """Returns metadata for a change that replaces or deletes all of them: ours are to stay."""
    has = custom(current)
    if whole:
        given = changed if isinstance(changed, dict) else {}
        return {**given, **{name: has[name] for name in has if name.lower().startswith(envelope.PREFIX)}}
    return dict.fromkeys(envelope.without_ours(has))


def masked(route: Route, *needed: str, **more: str) -> str:
    """Returns the query with some of its values changed; a mask of fields has also what we need of the answer."""
    if fields := route.get("fields"):
        more["fields"] = ",".join([fields, *needed])
    return route.query_but(**more)
