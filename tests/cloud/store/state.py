"""Buckets and objects of the Cloud Storage stand-in: generations, preconditions, resumable uploads, in memory."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import google_crc32c

QUANTUM = 256 << 10
"""Of a resumable upload that is not over, the service keeps multiples of this."""


class Answer(Exception):
    """A request is answered with an error."""

    def __init__(self, status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.headers = status, reason, message, headers or {}


@dataclass
class Object:
    bucket: str
    name: str
    content: bytes
    generation: int
    metageneration: int = 1
    fields: dict[str, Any] = field(default_factory=dict)
    updated: str = "2026-11-29T19:00:00.000Z"

    @functools.cached_property
    def hashes(self) -> tuple[str, str]:
        """CRC32C and MD5, found once: large objects are asked for often."""
        crc32c = google_crc32c.value(self.content).to_bytes(4, "big")
        return base64.b64encode(crc32c).decode(), base64.b64encode(
            hashlib.md5(self.content).digest()
        ).decode()

    def resource(self, url: str) -> dict[str, Any]:
        path = f"/b/{self.bucket}/o/{quote(self.name, safe='')}"
        return {
            "kind": "storage#object",
            "id": f"{self.bucket}/{self.name}/{self.generation}",
            "selfLink": f"{url}/storage/v1{path}",
            "mediaLink": f"{url}/download/storage/v1{path}?generation={self.generation}&alt=media",
            "bucket": self.bucket,
            "name": self.name,
            "generation": str(self.generation),
            "metageneration": str(self.metageneration),
            "contentType": "application/octet-stream",
            "storageClass": "STANDARD",
            "size": str(len(self.content)),
            "md5Hash": self.hashes[1],
            "crc32c": self.hashes[0],
            "etag": f"CJ{self.generation}",
            "timeCreated": self.updated,
            "updated": self.updated,
            **self.fields,
        }


@dataclass
class Session:
    """A resumable upload."""

    bucket: str
    name: str
    fields: dict[str, Any]
    conditions: dict[str, str]
    content: bytearray = field(default_factory=bytearray)
    done: Object | None = None


class World:
    """All there is."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.buckets: dict[str, dict[str, Object]] = {}
        self.sessions: dict[str, Session] = {}
        self.rewrites: dict[str, int] = {}
        self._numbers = itertools.count(int(time.time() * 1e6))
        self.session_ids = itertools.count(1)

    def bucket(self, name: str) -> dict[str, Object]:
        if name not in self.buckets:
            raise Answer(404, "notFound", "The specified bucket does not exist.")
        return self.buckets[name]

    def find(self, bucket: str, name: str, generation: str = "") -> Object:
        found = self.bucket(bucket).get(name)
        if found is None or generation not in ("", str(found.generation)):
            raise Answer(404, "notFound", f"No such object: {bucket}/{name}")
        return found

    def check(self, found: Object | None, conditions: dict[str, str], *, reading: bool = False) -> None:
        """Raises 412, or 304 where something is read that is not newer."""
        generation = str(found.generation) if found else "0"
        metageneration = str(found.metageneration) if found else ""
        for name, is_now, wanted in (
            ("ifGenerationMatch", generation, True),
            ("ifGenerationNotMatch", generation, False),
            ("ifMetagenerationMatch", metageneration, True),
            ("ifMetagenerationNotMatch", metageneration, False),
        ):
            if name in conditions and (conditions[name] == is_now) != wanted:
                if reading and not wanted:
                    raise Answer(304, "notModified", "")
                raise Answer(
                    412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold."
                )

    def put(
        self, bucket: str, name: str, content: bytes, fields: dict[str, Any], conditions: dict[str, str]
    ) -> Object:
        with self.lock:
            objects = self.bucket(bucket)
            self.check(objects.get(name), conditions)
            if not name:
                raise Answer(400, "required", "Required parameter: name")
            kept = {
                key: value for key, value in fields.items() if key in WRITABLE and value not in (None, {})
            }
            made = Object(bucket, name, content, next(self._numbers), fields=kept)
            for kind, told in (("crc32c", "crc32c"), ("md5Hash", "md5")):
                if fields.get(kind, made.resource("")[kind]) != made.resource("")[kind]:
                    raise Answer(400, "invalid", f"Provided {told} doesn't match calculated {told}.")
            objects[name] = made
            return made

    def patch(self, found: Object, changes: dict[str, Any], *, whole: bool) -> None:
        fields = {} if whole else dict(found.fields)
        for key, value in changes.items():
            if key == "metadata" and isinstance(value, dict) and not whole:
                merged = {**found.fields.get("metadata", {}), **value}
                value = {name: text for name, text in merged.items() if text is not None}
            if key in WRITABLE:
                fields[key] = value
        found.fields = {key: value for key, value in fields.items() if value not in (None, {})}
        found.metageneration += 1


_TOLD = ("contentType", "contentEncoding", "contentDisposition", "contentLanguage", "cacheControl")
WRITABLE = frozenset((*_TOLD, "metadata", "customTime", "temporaryHold", "eventBasedHold", "storageClass"))
