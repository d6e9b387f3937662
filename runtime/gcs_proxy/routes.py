"""What a request to Cloud Storage is about: its kind, bucket and object, read from method, path and query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from runtime.gcs_proxy.refusal import invalid

Kind = Literal[
    "upload",
    "session",
    "media",
    "metadata",
    "change",
    "delete",
    "list",
    "copy",
    "rewrite",
    "other",
    "folder",
    "batch",
    "plain",
    "connect",
]
"""other: anything else that is about objects of a bucket. folder: a folder and all in it get another name.
plain: what is about no object's bytes or size. connect: opens a connection to a host."""

Query = list[tuple[str, str]]
_SINGLE = frozenset(("alt", "uploadType", "upload_id", "name", "generation", "fields", "rewriteToken"))
_UPLOADS = (["upload", "storage", "v1", "b"], ["resumable", "upload", "storage", "v1", "b"])
_API, _DOWNLOAD = ["storage", "v1", "b"], ["download", "storage", "v1", "b"]
_ASKER = ("userProject", "access_token", "oauth_token", "key", "quotaUser")
_OBJECTLESS = ("batch", "discovery", "$discovery")
_SUBRESOURCES = ("acl", "iam")
_VERBS = {
    "copyTo": ("b", "", "o", ""),
    "rewriteTo": ("b", "", "o", ""),
    "moveTo": ("o", ""),
    "compose": (),
    "restore": (),
}
"""What is done by POST with an object, and what the path has behind it; "" is any name."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{0,221}")
_BATCHES = (["batch"], ["batch", "storage", "v1"])
OF_BUCKETS = frozenset(
    f"/{word}"
    for word in (
        *("acl", "defaultObjectAcl", "iam", "notificationConfigs", "lockRetentionPolicy", "storageLayout"),
        *("anywhereCaches", "folders", "managedFolders", "operations", "restore", "relocate"),
    )
)
"""What the JSON API has below a bucket besides its objects: the `verb` of what is about that."""
RESERVED = frozenset(("storage", "upload", "download", "batch", "resumable", "discovery", "$discovery"))


@dataclass(frozen=True)
class Route:
    """What a request is about. `to` is the other place of copies."""

    kind: Kind
    bucket: str = ""
    name: str = ""
    query: tuple[tuple[str, str], ...] = ()
    verb: str = ""
    to: tuple[str, str] = ("", "")
    xml: bool = False

    def get(self, name: str, default: str = "") -> str:
        """Returns a value of the query."""
        return dict(self.query).get(name, default)

    def query_but(self, *names: str, **more: str) -> str:
        """Returns the query as text, without some of its names and with others."""
        kept = [(name, value) for name, value in self.query if name not in names and name not in more]
        return urlencode([*kept, *more.items()], quote_via=quote, safe="")

    def aside(self, **more: str) -> str:
        """Returns the query of another request about the same, for the same asker: who asks, and who pays."""
        who = {name: self.get(name) for name in _ASKER}
        return urlencode(
            {name: value for name, value in {**more, **who}.items() if value}, quote_via=quote, safe=""
        )


def object_path(bucket: str, name: str, root: str = "/storage/v1") -> str:
    """Returns the path of an object in the JSON API."""
    return f"{root}/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}"


def upload_path(bucket: str) -> str:
    """Returns the path that takes uploads to a bucket."""
    return f"/upload/storage/v1/b/{quote(bucket, safe='')}/o"


def as_read(route: Route) -> str:
    """Returns path and query of an upload, written so that no server reads them otherwise than it was done here."""
    return with_query(upload_path(route.bucket), route.query_but())


def with_query(path: str, query: str) -> str:
    """Puts path and query together."""
    return f"{path}?{query}" if query else path


def route(method: str, target: str) -> Route:
    """Returns what a request is about. Raises Refused for what can be read in two ways."""
    path, _, raw_query = target.partition("?")
    if not path.startswith("/") or "#" in target:
        raise invalid("the request's target is no path")
    try:
        query = tuple(parse_qsl(raw_query, keep_blank_values=True, errors="strict"))
    except ValueError:
        raise invalid("the query is not UTF-8") from None
    names = [name for name, _ in query]
    if twice := next((name for name in _SINGLE if names.count(name) > 1), None):
        raise invalid(f"the parameter {twice} is given twice")
    parts = path[1:].split("/")
    if any(_decoded(part) in (".", "..") for part in parts):
        raise invalid("the path has dots for a part")  # some servers walk up then, and others do not
    _check_root(parts)
    if parts[:1] == ["batch"]:
        if parts not in _BATCHES:
            raise invalid("batches go to /batch/storage/v1")
        return Route("batch", query=query)
    for prefix in _UPLOADS:
        if parts[: len(prefix)] == prefix:
            return _upload(method, [_decoded(part) for part in parts[len(prefix) :]], query)
    if parts[:4] == _DOWNLOAD:
        return _objects(method, [_decoded(part) for part in parts[4:]], query, download=True)
    if parts[:3] == _API:
        return _objects(method, [_decoded(part) for part in parts[3:]], query)
    if parts[0] in RESERVED:
        return Route("plain", query=query)
    return _xml(method, parts, query)


def _check_root(parts: Sequence[str]) -> None:
    """Raises Refused for paths that some server might read as ones of the JSON API, and that are not written so."""
    if parts[0] == "" and len(parts) > 1:
        raise invalid("the path begins with two slashes")
    root = [_decoded(part) for part in parts[:5]]
    if root[0].lower() not in RESERVED:
        return
    fixed = next((known for known in (*_UPLOADS, _DOWNLOAD, _API) if root[: len(known)] == known), None)
    if fixed:
        if list(parts[: len(fixed)]) != fixed:
            raise invalid("the path is written with escapes where none are needed")
    elif (
        "" in root[:-1]
        or list(parts[:3]) != root[:3]
        or (root[0] not in _OBJECTLESS and root[:2] != ["storage", "v1"])
        or (root[0] == "storage" and _may_be(root[2:3], "b"))
    ):
        raise invalid("this is no path of the JSON API, version 1")


def _may_be(part: Sequence[str], word: str) -> bool:
    """Tells whether a part of a path, if there is one, is a word that some server may take for another one."""
    return any(one.lower() == word or not one.isascii() or not (one.isalpha() or not one) for one in part)


def check_bucket(name: str) -> str:
    """Returns a bucket's name. Raises Refused for what can be none: a server that reads it otherwise finds another."""
    if not _BUCKET.fullmatch(name):
        raise invalid("the path has something in a bucket's place that no bucket is called")
    return name


def _decoded(part: str) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise invalid("the path is not UTF-8") from None


def _upload(method: str, parts: Sequence[str], query: tuple[tuple[str, str], ...]) -> Route:
    if len(parts) != 2 or parts[1] != "o":
        raise invalid("this is no path for uploads")
    given, bucket = dict(query), check_bucket(parts[0])
    if "upload_id" in given:
        return Route("session", bucket, given.get("name", ""), query, verb=method)
    if method not in ("POST", "PUT"):
        raise invalid(f"uploads do not begin with {method}")
    return Route("upload", bucket, given.get("name", ""), query, verb=given.get("uploadType", ""))


def _objects(
    method: str, parts: Sequence[str], query: tuple[tuple[str, str], ...], *, download: bool = False
) -> Route:
    """Requests to /storage/v1/b/…: `parts` are what comes behind it."""
    bucket = check_bucket(parts[0]) if parts and parts != [""] else ""
    if parts[1:2] == ["folders"] and "renameTo" in parts[3:]:
        if len(parts) != 6 or parts[3:5] != ["renameTo", "folders"]:
            raise invalid(
                "the path is none of the JSON API's, or a name in it has slashes that are not escaped"
            )
        return Route("folder", bucket, parts[2], query, "renameTo", to=(bucket, parts[5]))
    if parts[1:2] != ["o"] and _may_be(parts[1:2], "o"):
        raise invalid("this is no path of the JSON API, version 1")
    if len(parts) < 2 or parts[1] != "o":
        if download:
            raise invalid("this is no path of the JSON API, version 1")
        return Route("plain", bucket, query=query, verb=f"/{parts[1]}" if len(parts) > 1 else "")
    if len(parts) == 2:
        return Route("list" if method in ("GET", "HEAD") else "other", bucket, query=query, verb="insert")
    name = parts[2]
    if len(parts) > 3 and parts[3] in _SUBRESOURCES:
        return Route("plain", bucket, name, query)
    if len(parts) > 3 and method != "POST":
        name = "/".join(parts[2:])  # some clients leave the slashes of a name as they are
    if len(parts) == 3 or name != parts[2]:
        if method in ("GET", "HEAD"):
            media = download or dict(query).get("alt") == "media"
            return Route("media" if media else "metadata", bucket, name, query)
        kinds: dict[str, Kind] = {"DELETE": "delete", "PATCH": "change", "PUT": "change"}
        return Route(kinds.get(method, "other"), bucket, name, query, verb=method)
    wanted, behind = _VERBS.get(parts[3]), parts[4:]
    if (
        wanted is None
        or len(behind) != len(wanted)
        or any(word not in ("", part) for word, part in zip(wanted, behind, strict=True))
    ):
        # Who reads the slashes of a name otherwise than we do would take it for another place.
        raise invalid("the path is none of the JSON API's, or a name in it has slashes that are not escaped")
    if parts[3] in ("copyTo", "rewriteTo"):
        kind: Kind = "copy" if parts[3] == "copyTo" else "rewrite"
        return Route(kind, bucket, name, query, parts[3], to=(check_bucket(parts[5]), parts[7]))
    to = (bucket, parts[5]) if parts[3] == "moveTo" else ("", "")
    return Route("other", bucket, name, query, verb=parts[3], to=to)


def _xml(method: str, parts: Sequence[str], query: tuple[tuple[str, str], ...]) -> Route:
    """Requests of the XML API: /bucket/object, where slashes of the name stand for themselves."""
    bucket, name = _decoded(parts[0]), "/".join(_decoded(part) for part in parts[1:])
    if bucket:
        check_bucket(bucket)
    if not bucket or not name:
        # A POST to a bucket is how forms upload objects.
        of_bucket: dict[str, Kind] = {"GET": "list", "HEAD": "list", "POST": "other"}
        kind = of_bucket.get(method, "plain") if bucket else "plain"
        return Route(kind, bucket, query=query, verb=method, xml=True)
    kinds: dict[str, Kind] = {"GET": "media", "HEAD": "media", "PUT": "upload", "DELETE": "delete"}
    return Route(kinds.get(method, "other"), bucket, name, query, verb=method, xml=True)
