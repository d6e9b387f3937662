"""Copies within the store: the bytes stay as they are, and the data key is wrapped anew for the place they go to."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.format import number
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.metadata import current_of, send
from runtime.gcs_proxy.passing import asked_of_store, pass_through
from runtime.gcs_proxy.refusal import invalid, unsupported
from runtime.gcs_proxy.resources import Resource, custom, parse, parse_clients, refuse_ours, shown
from runtime.gcs_proxy.routes import Route, with_query
from runtime.gcs_proxy.server import Client

_BODY_LIMIT = 1 << 20
_TRIES = 8
_COPIED = (
    "contentType",
    "contentEncoding",
    "contentDisposition",
    "contentLanguage",
    "cacheControl",
    "customTime",
)


def copy(gate: Gateway, client: Client, route: Route) -> None:
    """Answers copyTo and rewriteTo. Raises Refused, Closed."""
    source, target = gate.key_map.key(route.bucket, route.name), gate.key_map.key(*route.to)
    if source is None and target is None:
        pass_through(gate, client)
        return
    if source is None or target is None:
        unlike = (
            "not encrypted, and its copy has to be" if target else "encrypted, and its copy could not be read"
        )
        raise unsupported(
            f"gs://{route.bucket}/{route.name} is {unlike}: read it and write it, both through the proxy"
        )
    given = parse_clients(client.body.read_all(_BODY_LIMIT))
    refuse_ours(custom(given))
    token, sent, generation, sizes = _going_on(route.get("rewriteToken"))
    headers = asked_of_store(client.request.headers)
    headers.fields.append(("Content-Type", "application/json; charset=UTF-8"))
    path = client.request.target.partition("?")[0]
    for last in (False,) * (_TRIES - 1) + (True,):
        if not token:
            answer = current_of(gate, client, route, route.get("sourceGeneration"))
            if not answer.ok:
                client.answer(answer.status, answer.headers, answer.content, answer.reason)
                return
            known = gate.learn(current := parse(answer.content), route.bucket, route.name)
            sent = dict(given) or {name: current[name] for name in (*_COPIED, "metadata") if name in current}
            sealed_for = gate.rewrapped(known, target, *route.to)
            sent["metadata"] = {**envelope.without_ours(custom(sent)), **sealed_for.metadata()}
            generation, sizes = known.generation, [known.plain_size, known.sealed_size]
        more = {"sourceGeneration": generation, **({"rewriteToken": token} if token else {})}
        query = route.query_but("fields", **more)
        answer = gate.pool.ask("POST", with_query(path, query), headers, json.dumps(sent).encode())
        # Where the client means no generation, one that is gone was written anew since we looked.
        if last or answer.status != 404 or token or route.get("sourceGeneration"):
            break
    send(client, answer, lambda told: _shown(told, client.origin, sent, generation, sizes))


def _shown(told: Resource, origin: str, sent: Resource, generation: str, sizes: list[int]) -> Resource:
    """Returns what a copy is answered with. What a rewrite that takes several calls needs of us goes with its token."""
    if told.get("kind") != "storage#rewriteResponse":
        return shown(told, origin)
    seen = dict(told)
    plain, sealed = sizes
    done = number(seen.get("totalBytesRewritten")) or 0
    seen |= {
        "objectSize": str(plain),
        "totalBytesRewritten": str(plain if done >= sealed else done * plain // sealed),
    }
    if "resource" in seen:
        seen["resource"] = shown(seen["resource"], origin)
    if token := seen.get("rewriteToken"):
        whole = json.dumps([token, sent, generation, sizes]).encode()
        seen["rewriteToken"] = base64.urlsafe_b64encode(whole).decode()
    return seen


def _going_on(token: str) -> tuple[str, dict[str, Any], str, list[int]]:
    """Returns the store's own token, and what was sent with the first call: all of its calls have to say the same."""
    if not token:
        return "", {}, "", []
    try:
        told, sent, generation, sizes = json.loads(base64.urlsafe_b64decode(token))
        plain, sealed = sizes
        if not (isinstance(told, str) and isinstance(sent, dict) and number(generation) is not None and told):
            raise ValueError("it has other parts")
        return told, sent, str(generation), [int(plain), int(sealed)]
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise invalid("the rewriteToken is none of this proxy's") from error
