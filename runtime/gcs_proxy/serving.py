"""What is done with each request, by what it is about."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

from runtime.contract.keymap import KeyRef
from runtime.gcs_proxy.ambiguity import (
    OneEnd,
    refuse_another_host,
    refuse_body,
    refuse_other_protocols,
    refuse_two_readings,
    refuse_without_length,
)
from runtime.gcs_proxy.batch import answer_batch
from runtime.gcs_proxy.boundaries import telling
from runtime.gcs_proxy.chunks import proceed
from runtime.gcs_proxy.copies import copy
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.grpc_refusal import MESSAGE
from runtime.gcs_proxy.metadata import change, describe, list_objects
from runtime.gcs_proxy.passing import pass_through
from runtime.gcs_proxy.peers import Peers
from runtime.gcs_proxy.reads import read
from runtime.gcs_proxy.refusal import Refused, invalid, unsupported
from runtime.gcs_proxy.resources import JSON, named, of_objects, one_name, parse_clients
from runtime.gcs_proxy.routes import (
    OF_BUCKETS,
    Route,
    as_read,
    check_bucket,
    object_path,
    route,
    with_query,
)
from runtime.gcs_proxy.server import Client
from runtime.gcs_proxy.sessions import begin
from runtime.gcs_proxy.uploads import opened_multipart, upload_media, upload_multipart, upload_xml
from runtime.gcs_proxy.wire import Headers

_BODY_LIMIT = 1 << 20


def answer(gate: Gateway, client: Client, peers: Peers | None = None) -> None:
    """Answers one request; `peers` have uploads of their own. Raises Refused, BadMessage, Closed."""
    request = client.request
    if request.headers.get("content-type").startswith("application/grpc"):
        raise unsupported(MESSAGE)
    refuse_two_readings(request)
    refuse_another_host(request.headers)
    if request.headers.has("upgrade"):
        raise unsupported("this proxy speaks HTTP/1.1 only")
    about = route(request.method, request.target)
    client.about, client.xml = about, about.xml
    client.body.wait()  # who sends nothing yet takes no buffer, key or connection yet
    client.stays = any(map(gate.key_map.touches, (about.bucket, about.to[0])))
    if gate.key_map.touches(about.bucket):
        refuse_body(client)
        if about.kind in ("upload", "session"):
            refuse_other_protocols(request, about.query)
            refuse_without_length(request, about)
    if about.kind == "upload":
        _upload(gate, client, about)
    elif about.kind in ("copy", "rewrite"):
        copy(gate, client, about)
    elif about.kind == "batch":
        answer_batch(gate, client, answer)
    elif about.kind == "plain" or not gate.key_map.touches(about.bucket):
        if gate.key_map.touches(about.bucket) and about.verb.startswith("/") and about.verb not in OF_BUCKETS:
            raise unsupported(
                "what may be asked below a bucket with encrypted objects does not go by this path"
            )
        pass_through(gate, client)
    elif about.kind == "session":
        holder = peers.holder(about.get("upload_id")) if peers else None
        if peers and holder is not None and holder != peers.index:
            peers.pass_on(gate, client, holder)
        else:
            proceed(gate, client, about)
    elif about.kind == "list":
        list_objects(gate, client, about)
    elif about.kind == "other":
        _other(gate, client, about)
    elif about.kind == "folder":
        _folder(gate, client, about)
    elif gate.key_map.key(about.bucket, about.name) is None:
        pass_through(gate, client)
    else:
        _encrypted(gate, client, about)


def _other(gate: Gateway, client: Client, about: Route) -> None:
    """Passes on what is about objects that have no key, none of them; refuses the rest."""
    content, places = b"", [(about.bucket, about.name), *([about.to] if about.to[0] else [])]
    if about.verb == "compose" and gate.key_map.key(*places[0]) is None:
        content = client.body.read_all(_BODY_LIMIT)
        sources = parse_clients(content).get("sourceObjects")
        places += [(about.bucket, named(one)) for one in of_objects(sources)]
    if not about.name or any(gate.key_map.key(*place) for place in places):
        what = about.verb or client.request.method
        raise unsupported(f"{what} of encrypted objects does not go through this proxy")
    if content:
        _tell(client, JSON)  # as it was read here
    pass_through(gate, client, content)


def _folder(gate: Gateway, client: Client, about: Route) -> None:
    """Passes on a new name of a folder in which nothing has a key, before or after; refuses others.

    What is in it would get new names with it, to which its data keys are not bound, or come to lie in another place.
    """
    for name in (about.name, about.to[1]):
        if gate.key_map.touches_below(about.bucket, name.rstrip("/") + "/"):
            raise unsupported(
                f"{about.verb} of a folder of encrypted objects, or to one, does not go through this proxy: copy and "
                "delete them"
            )
    pass_through(gate, client)


def _upload(gate: Gateway, client: Client, about: Route) -> None:
    if not gate.key_map.touches(about.bucket) and not (about.xml and _copied(client)):
        pass_through(gate, client)
    elif about.xml:
        if any(name == "compose" for name, _ in about.query):
            raise unsupported(
                "objects are composed by the JSON API where any object of the bucket is encrypted"
            )
        if key := gate.key_map.key(about.bucket, about.name):
            upload_xml(gate, client, about, key)
        elif any(gate.key_map.key(*place) for place in _copied(client)):
            raise unsupported("copies of encrypted objects are made by the JSON API")
        else:
            pass_through(gate, client)
    elif about.verb == "media":
        if key := _key(gate, about):
            upload_media(gate, client, about, key)
        else:
            pass_through(gate, client, target=as_read(about))
    elif about.verb == "multipart":
        _multipart(gate, client, about)
    elif about.verb == "resumable":
        begin(gate, client, about)
    else:
        raise unsupported(f"uploads of the type {about.verb!r} do not go through this proxy")


def _copied(client: Client) -> list[tuple[str, str]]:
    """Returns the places that an upload of the XML API takes its bytes from."""
    told = [client.request.headers.get(f"x-{who}-copy-source") for who in ("goog", "amz")]
    paths = [unquote(text).removeprefix("/").partition("?")[0] for text in told if text]
    if any(part in (".", "..") for path in paths for part in path.split("/")):
        raise invalid("the place that is copied from has dots for a part")
    return [(check_bucket(path.partition("/")[0]), path.partition("/")[2]) for path in paths]


def _multipart(gate: Gateway, client: Client, about: Route) -> None:
    resource, part = opened_multipart(client)
    about = replace(about, name=one_name(about.name, resource))
    key = _key(gate, about)
    if key is None:
        _tell(client, telling("multipart/related", part.boundary))  # as it was read here
        pass_through(gate, client, part.raw, as_read(about), OneEnd(part.delimiter, part.begun).see)
        return
    upload_multipart(gate, client, about, resource, part, key)


def _tell(client: Client, content_type: tuple[str, str]) -> None:
    """Has a body go on with this Content-Type."""
    client.request.headers = Headers([*client.request.headers.without(("content-type",)), content_type])


def _key(gate: Gateway, about: Route) -> KeyRef | None:
    if not about.name:
        raise Refused(400, "required", "Required parameter: name")
    return gate.key_map.key(about.bucket, about.name)


def _encrypted(gate: Gateway, client: Client, about: Route) -> None:
    """Answers what is about one object that has a key."""
    if about.kind == "media":
        read(gate, client, about)
    elif about.kind == "metadata":
        describe(gate, client, about)
    elif about.kind == "change":
        change(gate, client, about)
    else:  # a delete
        # Asked for by the name that was looked up: nothing is left to how the store would read the path.
        name = object_path(about.bucket, about.name)
        pass_through(gate, client, target="" if about.xml else with_query(name, about.query_but()))
