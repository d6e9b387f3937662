"""The JSON and XML APIs of Cloud Storage as the stand-in answers them, request by request."""

from __future__ import annotations

import email.parser
import email.policy
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.cloud.store.state import QUANTUM, Answer, Object, Session, World

_CONDITIONS = (
    "ifGenerationMatch",
    "ifGenerationNotMatch",
    "ifMetagenerationMatch",
    "ifMetagenerationNotMatch",
)
_XML_CONDITIONS = {"x-goog-" + re.sub("([A-Z])", r"-\1", name).lower(): name for name in _CONDITIONS}


@dataclass
class Reply:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | memoryview = b""


@dataclass
class Asked:
    method: str
    target: str
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes
    url: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.target)
        self.path = parts.path
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.conditions = {name: self.query[name] for name in _CONDITIONS if name in self.query}
        for header, name in _XML_CONDITIONS.items():
            if header in self.headers:
                self.conditions[name] = self.headers[header]


def answer(world: World, asked: Asked) -> Reply:
    """Returns what the service answers; errors in the form of the API that was asked."""
    xml = not asked.path.startswith(("/storage/", "/upload/", "/download/", "/batch/"))
    try:
        with world.lock:
            return _route(world, asked, xml)
    except Answer as error:
        if error.status == 304:
            return Reply(304)
        if xml:
            code = "PreconditionFailed" if error.status == 412 else "NoSuchKey"
            text = (
                f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{error.message}</Message></Error>"
            )
            return Reply(
                error.status,
                {"Content-Type": "application/xml; charset=UTF-8", **error.headers},
                text.encode(),
            )
        one = {"message": error.message, "domain": "global", "reason": error.reason}
        content = {"error": {"code": error.status, "message": error.message, "errors": [one]}}
        return Reply(
            error.status, {"Content-Type": "application/json", **error.headers}, json.dumps(content).encode()
        )


def _route(world: World, asked: Asked, xml: bool) -> Reply:
    if asked.path.startswith("/batch/"):
        return _batch(world, asked)
    if xml:
        return _xml(world, asked)
    parts = [unquote(part) for part in asked.path[1:].split("/")]
    root = parts.index("b")
    kind, rest = parts[0], parts[root + 1 :]
    if kind == "upload":
        return _upload(world, asked, rest[0])
    if len(rest) < 2:
        return _buckets(world, asked, rest)
    if len(rest) == 2:
        return _list(world, asked, rest[0])
    bucket, name, verb = rest[0], rest[2], rest[3:]
    if verb:
        return _copy(world, asked, bucket, name, verb)
    return _object(world, asked, bucket, name, media=kind == "download" or asked.query.get("alt") == "media")


def _buckets(world: World, asked: Asked, rest: list[str]) -> Reply:
    if asked.method == "POST":
        name = json.loads(asked.body)["name"]
        world.buckets.setdefault(name, {})
        return _json({"kind": "storage#bucket", "name": name, "id": name})
    if not rest:
        return _json({"kind": "storage#buckets", "items": [{"name": name} for name in world.buckets]})
    world.bucket(rest[0])
    return _json(
        {
            "kind": "storage#bucket",
            "name": rest[0],
            "id": rest[0],
            "location": "US",
            "storageClass": "STANDARD",
        }
    )


def _list(world: World, asked: Asked, bucket: str) -> Reply:
    query = asked.query
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    start, end, after = query.get("startOffset", ""), query.get("endOffset", ""), query.get("pageToken", "")
    items: list[dict[str, Any]] = []
    prefixes: list[str] = []
    listed: dict[str, Any] = {"kind": "storage#objects"}
    most = int(query.get("maxResults", 1000))
    for name, found in sorted(world.bucket(bucket).items()):
        if not name.startswith(prefix) or name < start or (end and name >= end) or (after and name <= after):
            continue
        at = name.find(delimiter, len(prefix)) if delimiter else -1
        if at >= 0:
            if name[: at + 1] not in prefixes:
                prefixes.append(name[: at + 1])
            continue
        if len(items) == most:
            listed["nextPageToken"] = items[-1]["name"]
            break
        items.append(_masked_item(found.resource(asked.url), query.get("fields", "")))
    if items:
        listed["items"] = items
    if prefixes:
        listed["prefixes"] = prefixes
    return _json(listed)


def _masked_item(item: dict[str, Any], fields: str) -> dict[str, Any]:
    wanted = {name.strip() for group in re.findall(r"items\(([^)]*)\)", fields) for name in group.split(",")}
    return {name: value for name, value in item.items() if not wanted or name in wanted}


def _object(world: World, asked: Asked, bucket: str, name: str, *, media: bool) -> Reply:
    reading = asked.method in ("GET", "HEAD")
    generation = asked.query.get("generation", "")
    if not reading or asked.conditions:
        world.check(world.bucket(bucket).get(name), asked.conditions, reading=reading)
    found = world.find(bucket, name, generation)
    if asked.method == "DELETE":
        del world.bucket(bucket)[name]
        return Reply(204)
    if asked.method in ("PATCH", "PUT"):
        world.patch(found, json.loads(asked.body), whole=asked.method == "PUT")
        return _json(_masked(found.resource(asked.url), asked))
    return _media(asked, found) if media else _json(_masked(found.resource(asked.url), asked))


def _masked(resource: dict[str, Any], asked: Asked) -> dict[str, Any]:
    wanted = asked.query.get("fields", "").split(",")
    return {name: value for name, value in resource.items() if wanted == [""] or name in wanted}


def _media(asked: Asked, found: Object) -> Reply:
    resource = found.resource("")
    headers = {
        "Content-Type": resource["contentType"],
        "X-Goog-Generation": str(found.generation),
        "X-Goog-Metageneration": str(found.metageneration),
        "X-Goog-Stored-Content-Length": str(len(found.content)),
        "X-Goog-Hash": f"crc32c={resource['crc32c']},md5={resource['md5Hash']}",
        "ETag": resource["etag"],
    }
    content = memoryview(found.content)
    if encoding := found.fields.get("contentEncoding"):
        if "gzip" not in asked.headers.get("accept-encoding", ""):
            raise Answer(503, "backendError", "what is stored as gzip is none, and cannot be unpacked")
        headers["Content-Encoding"] = encoding
    wanted = re.fullmatch(r"bytes=([0-9]*)-([0-9]*)", asked.headers.get("range", ""))
    if not wanted or wanted[0] == "bytes=-":
        return Reply(200, headers, content)
    size = len(content)
    if wanted[1]:
        first, last = int(wanted[1]), min(int(wanted[2] or size - 1), size - 1)
    else:
        first, last = max(0, size - int(wanted[2])), size - 1
    if first > last:
        raise Answer(
            416,
            "requestedRangeNotSatisfiable",
            "Request range not satisfiable",
            {"Content-Range": f"bytes */{size}"},
        )
    headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    return Reply(206, headers, content[first : last + 1])


def _upload(world: World, asked: Asked, bucket: str) -> Reply:
    world.bucket(bucket)
    query = asked.query
    if "upload_id" in query:
        return _session(world, asked, query["upload_id"])
    kind = query.get("uploadType")
    if kind == "media":
        fields = {
            "contentType": asked.headers.get("content-type", "application/octet-stream"),
            "contentEncoding": query.get("contentEncoding"),
        }
        made = world.put(bucket, query.get("name", ""), asked.body, fields, asked.conditions)
    elif kind == "multipart":
        fields, content = _related(asked)
        fields.setdefault("contentEncoding", query.get("contentEncoding"))
        made = world.put(
            bucket, fields.get("name") or query.get("name", ""), content, fields, asked.conditions
        )
    elif kind == "resumable":
        fields = json.loads(asked.body or b"{}")
        if kept := asked.headers.get("x-upload-content-type"):
            fields.setdefault("contentType", kept)
        world.check(world.bucket(bucket).get(fields.get("name") or query.get("name", "")), asked.conditions)
        number = f"id{next(world.session_ids)}"
        name = fields.get("name") or query.get("name", "")
        world.sessions[number] = Session(bucket, name, fields, asked.conditions)
        location = f"{asked.url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={number}"
        return Reply(200, {"Location": location, "X-GUploader-UploadID": number})
    else:
        raise Answer(400, "badRequest", f"Bad uploadType {kind}")
    return _json(_masked(made.resource(asked.url), asked))


def _related(asked: Asked) -> tuple[dict[str, Any], bytes]:
    told = re.search(r'boundary="?([^";]+)"?', asked.headers.get("content-type", ""))
    if not told:
        raise Answer(400, "badContent", "Malformed multipart body.")
    mark = re.escape(b"--" + told[1].encode())
    head = rb"\s*%b\r?\n.*?\r?\n\r?\n(?P<json>.*?)\r?\n%b\r?\n.*?\r?\n\r?\n" % (mark, mark)
    begun = re.compile(head, re.DOTALL).match(asked.body)
    end = asked.body.rfind(b"\n--" + told[1].encode() + b"--")
    if not begun or end < 0:
        raise Answer(400, "badContent", "Malformed multipart body.")
    if asked.body[end - 1 : end] == b"\r":
        end -= 1
    return json.loads(begun["json"]), bytes(memoryview(asked.body)[begun.end() : end])


def _session(world: World, asked: Asked, number: str) -> Reply:
    session = world.sessions.get(number)
    if session is None:
        raise Answer(404, "notFound", "No such upload session")
    if asked.method == "DELETE":
        del world.sessions[number]
        return Reply(499)
    if session.done:
        return _json(session.done.resource(asked.url))
    told = re.fullmatch(r"bytes (?:([0-9]+)-([0-9]+)|\*)/([0-9]+|\*)", asked.headers.get("content-range", ""))
    kept = len(session.content)
    if not told and "content-range" in asked.headers:
        raise Answer(400, "invalid", "Invalid Content-Range")
    if told and not told[1]:
        if told[3] == "*" or int(told[3]) != kept:
            return _incomplete(kept)
    elif told:
        first, last = int(told[1]), int(told[2])
        if first > kept or last - first + 1 != len(asked.body):
            raise Answer(
                503,
                "backendError",
                f"Invalid request. There were {kept} bytes kept, and bytes {first}-{last} came.",
            )
        session.content[first:] = asked.body
    else:
        session.content[:] = asked.body
    total = int(told[3]) if told and told[3] != "*" else (None if told else len(session.content))
    if total != len(session.content):
        if told and told[1] and total is None:
            del session.content[len(session.content) // QUANTUM * QUANTUM :]
        return _incomplete(len(session.content))
    session.done = world.put(
        session.bucket, session.name, bytes(session.content), session.fields, session.conditions
    )
    return _json(session.done.resource(asked.url))


def _incomplete(kept: int) -> Reply:
    return Reply(308, {"Range": f"bytes=0-{kept - 1}"} if kept else {})


def _copy(world: World, asked: Asked, bucket: str, name: str, verb: list[str]) -> Reply:
    if verb[0] == "compose" or verb[0] not in ("copyTo", "rewriteTo"):
        raise Answer(400, "invalid", f"{verb[0]} is not played here")
    source = world.find(bucket, name, asked.query.get("sourceGeneration", ""))
    to, new = verb[2], verb[4]
    token = asked.query.get("rewriteToken", "")
    if verb[0] == "rewriteTo" and "steps" in name:
        # So large a one takes several calls, all of which have to ask for the same.
        known = world.rewrites.setdefault(token or "first", hash(asked.body))
        if token and known != hash(asked.body):
            raise Answer(400, "invalid", "The rewrite token is of another request")
        if not token:
            world.rewrites["token-1"] = hash(asked.body)
            half = len(source.content) // 2
            sizes = {"totalBytesRewritten": str(half), "objectSize": str(len(source.content))}
            return _json(
                {"kind": "storage#rewriteResponse", **sizes, "done": False, "rewriteToken": "token-1"}
            )
    given = json.loads(asked.body or b"{}")
    fields = given or dict(source.fields)
    made = world.put(to, new, source.content, fields, asked.conditions)
    resource = made.resource(asked.url)
    if verb[0] == "copyTo":
        return _json(resource)
    sizes = {"totalBytesRewritten": str(len(made.content)), "objectSize": str(len(made.content))}
    return _json({"kind": "storage#rewriteResponse", **sizes, "done": True, "resource": resource})


def _batch(world: World, asked: Asked) -> Reply:
    head = f"Content-Type: {asked.headers['content-type']}\r\n\r\n".encode()
    parsed = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + asked.body)
    out = b""
    for part in parsed.iter_parts():
        inner = part.get_payload(decode=True)
        if part.get_content_type() != "application/http":
            raise Answer(400, "invalid", "a part of a batch is application/http")
        text, _, body = inner.partition(b"\r\n\r\n")
        line, *fields = text.decode().split("\r\n")
        method, target, _ = line.split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)
        }
        reply = answer(world, Asked(method, target, headers, body, asked.url))
        told = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        content = bytes(reply.content)
        number = str(part.get("Content-ID", "")).strip("<>")
        out += (
            (
                f"--batch_x\r\nContent-Type: application/http\r\nContent-ID: <response-{number}>\r\n\r\n"
                f"HTTP/1.1 {reply.status} X\r\n{told}Content-Length: {len(content)}\r\n\r\n"
            ).encode()
            + content
            + b"\r\n"
        )
    return Reply(200, {"Content-Type": "multipart/mixed; boundary=batch_x"}, out + b"--batch_x--\r\n")


def _xml(world: World, asked: Asked) -> Reply:
    bucket, _, name = unquote(asked.path[1:]).partition("/")
    meta = {
        key.removeprefix("x-goog-meta-"): text
        for key, text in asked.headers.items()
        if key.startswith("x-goog-meta-")
    }
    if asked.method == "PUT":
        fields = {
            "contentType": asked.headers.get("content-type", "application/octet-stream"),
            "contentEncoding": asked.headers.get("content-encoding"),
            "metadata": meta,
        }
        made = world.put(bucket, name, asked.body, fields, asked.conditions)
        return Reply(
            200, {"X-Goog-Generation": str(made.generation), "ETag": '"0123456789abcdef0123456789abcdef"'}
        )
    reading = asked.method in ("GET", "HEAD")
    if asked.conditions:
        world.check(world.bucket(bucket).get(name), asked.conditions, reading=reading)
    found = world.find(bucket, name, asked.query.get("generation", ""))
    if asked.method == "DELETE":
        del world.bucket(bucket)[name]
        return Reply(204)
    reply = _media(asked, found)
    for key, text in found.fields.get("metadata", {}).items():
        reply.headers[f"x-goog-meta-{key}"] = text
    return reply


def _json(content: dict[str, Any]) -> Reply:
    return Reply(200, {"Content-Type": "application/json; charset=UTF-8"}, json.dumps(content).encode())
