"""What the JSON API says of objects, as their clients are to see it: the plaintext's size, and nothing of ours."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import urlsplit

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.format import Malformed, number
from runtime.gcs_proxy.refusal import Refused, corrupt, invalid, unavailable

Resource = dict[str, Any]
JSON = ("Content-Type", "application/json; charset=UTF-8")
"""The header of what is read and written here."""
_HASHES = ("md5Hash", "crc32c")
_NUMBERS = ("size", "generation", "metageneration", "totalBytesRewritten")
_TEXTS = ("name", "bucket", "contentEncoding", "crc32c")
_LINKS = ("selfLink", "mediaLink")


def parse(content: bytes) -> Resource:
    """Returns the JSON object that the store answered. Raises Refused (503)."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise unavailable(f"the store's answer is no JSON: {error}") from error
    if not isinstance(found, dict) or not _is_right(found):
        raise unavailable("the store's answer is not what the JSON API says of objects")
    return found


def _is_right(found: Resource) -> bool:
    """Tells whether what is used of an object, or of a list or copy of some, is of the kind that it should be."""
    metadata, items = found.get("metadata") or {}, found.get("items", [])
    copied = [found["resource"]] if "resource" in found else []
    return (
        all(number(found.get(name, 0)) is not None for name in _NUMBERS)
        and all(isinstance(found.get(name, ""), str) for name in _TEXTS)
        and isinstance(metadata, dict)
        and all(isinstance(value, str) for value in metadata.values())
        and isinstance(items, list)
        and all(isinstance(one, dict) and _is_right(one) for one in (*items, *copied))
    )


def parse_clients(content: bytes) -> Resource:
    """Returns the JSON object that a client sent. Raises Refused (400)."""
    try:
        # As text: of bytes, Python reads UTF-16 as well, and others do not.
        found = json.loads((content or b"{}").decode(), object_pairs_hook=_once, parse_constant=_no_number)
        json.dumps(found, ensure_ascii=False).encode()  # halves of characters are none
    except (ValueError, RecursionError) as error:
        raise invalid(f"Parse Error: {error}") from error
    if not isinstance(found, dict):
        raise invalid("the body is no JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> Resource:
    """Which of two values of a name counts, not all who read JSON agree on."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def named(resource: Resource) -> str:
    """Returns the name that a client gives an object; empty where it gives none. Raises Refused (400)."""
    name = resource.get("name", "")
    if not isinstance(name, str):
        raise invalid("the object's name is no text")
    return name


def one_name(asked: str, resource: Resource) -> str:
    """Returns the name of an upload, from its query or its JSON. Raises Refused (400) where these are two."""
    name = named(resource)
    if asked and name not in ("", asked):
        raise invalid("the object has one name in the query and another in the body")
    return asked or name


def of_objects(listed: Any) -> list[Resource]:
    """Returns the objects that a client lists. Raises Refused (400) for what is no list of objects."""
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise invalid("what is to be put together is no list of objects")
    return listed


def custom(resource: Resource) -> dict[str, str]:
    """Returns an object's custom metadata. Raises Refused (400) when a client's have another form."""
    metadata = resource.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise invalid("metadata are not text by name")
    return metadata


def refuse_ours(metadata: dict[str, Any]) -> None:
    """Raises Refused where a client's metadata use a name of ours."""
    if taken := sorted(name for name in metadata if name.lower().startswith(envelope.PREFIX)):
        raise invalid(f"metadata may not be named {taken[0]}: {envelope.PREFIX}… is the proxy's")


def is_encrypted(resource: Resource) -> bool:
    """Tells whether the object is one of ours."""
    metadata = resource.get("metadata")
    return isinstance(metadata, dict) and envelope.is_encrypted(metadata)


def plain_size(resource: Resource) -> int:
    """Returns the size of an encrypted object's plaintext. Raises Refused (422)."""
    try:
        return envelope.read(custom(resource)).layout.plain_size(number(resource.get("size")) or 0)
    except Malformed as error:
        raise corrupt(f"gs://{resource.get('bucket')}/{resource.get('name')}: {error}") from error


def shown(resource: Resource, origin: str) -> Resource:
    """Returns an object as its client sees it; `origin` is where that client asks. Of objects of others only the links
    are changed: who followed them past the proxy would read what nobody has looked at.

    Raises Refused (422) for an object that has no size of ours.
    """
    if not is_encrypted(resource):
        return _linked(resource, origin)
    seen = {name: value for name, value in resource.items() if name not in _HASHES}
    if "size" in seen:
        seen["size"] = str(plain_size(resource))
    seen["metadata"] = envelope.without_ours(custom(resource))
    if not seen["metadata"]:
        del seen["metadata"]
    return _linked(seen, origin)


def _linked(resource: Resource, origin: str) -> Resource:
    """Returns an object whose links lead to where its client asks."""
    return {
        name: _at(origin, value) if name in _LINKS and isinstance(value, str) else value
        for name, value in resource.items()
    }


def shown_list(listed: Resource, origin: str) -> Resource:
    """Returns a list of objects likewise. One that is spoilt stays in it as it is: the others are to be seen."""
    if "items" not in listed:
        return listed
    return {**listed, "items": [_shown_or_not(item, origin) for item in listed["items"]]}


def _shown_or_not(item: Resource, origin: str) -> Resource:
    try:
        return shown(item, origin)
    except Refused:
        return _linked(item, origin)


def uploaded(resource: Resource, origin: str, size: int, crc32c: int, md5: bytes | None) -> Resource:
    """Returns what the upload of a plaintext is answered with."""
    seen = shown(resource, origin)
    if seen.get("size", str(size)) != str(size):
        raise unavailable("the store kept another number of bytes than it was sent")
    seen["crc32c"] = crc32c_text(crc32c)
    if md5 is not None:
        seen["md5Hash"] = base64.b64encode(md5).decode()
    return seen


def crc32c_text(crc32c: int) -> str:
    """Returns a CRC32C as Cloud Storage writes it."""
    return base64.b64encode(crc32c.to_bytes(4, "big")).decode()


def _at(origin: str, link: str) -> str:
    parts = urlsplit(link)
    return origin + parts.path + (f"?{parts.query}" if parts.query else "")
