"""What an encrypted object's custom metadata say of it: version, segments, object id, key and wrapped data key."""

from __future__ import annotations

import base64
import binascii
import secrets
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from runtime.gcs_proxy.format import VERSION, Layout, Malformed

OBJECT_ID_BYTES, DATA_KEY_BYTES = 16, 32
_LARGEST_WRAP_BYTES = 4096

PREFIX = "slicebench-enc-"
"""Begins the name of each of our entries. They are not a client's to write, and it does not see them."""
_VERSION, _SEGMENT, _OBJECT, _KEY, _WRAPPED = (
    PREFIX + name for name in ("version", "segment-bytes", "object-id", "key", "wrapped-key")
)
NAMES = frozenset((_VERSION, _SEGMENT, _OBJECT, _KEY, _WRAPPED))


@dataclass(frozen=True)
class Envelope:
    """What is needed, besides the key that wrapped its data key, to decrypt an object."""

    object_id: bytes
    key_uri: str
    wrapped_key: bytes
    layout: Layout

    def metadata(self) -> dict[str, str]:
        """Returns it as entries of an object's custom metadata."""
        return {
            _VERSION: str(VERSION),
            _SEGMENT: str(self.layout.segment_bytes),
            _OBJECT: self.object_id.hex(),
            _KEY: self.key_uri,
            _WRAPPED: base64.b64encode(self.wrapped_key).decode(),
        }

    def bound_to(self, bucket: str, name: str) -> bytes:
        """Returns what the data key of an object of this place is wrapped with, as associated data."""
        return binding(self.layout, self.object_id, bucket, name)


def binding(layout: Layout, object_id: bytes, bucket: str, name: str) -> bytes:
    """Returns the associated data of a wrap. Buckets have no slash in their names: no two places look the same."""
    place = f"{bucket}/{name}".encode()
    return struct.pack(">BI", VERSION, layout.segment_bytes) + object_id + place


def new_object_id() -> bytes:
    """Returns the id of a new object."""
    return secrets.token_bytes(OBJECT_ID_BYTES)


def new_data_key() -> bytes:
    """Returns the key of a new object."""
    return secrets.token_bytes(DATA_KEY_BYTES)


def is_encrypted(metadata: Mapping[str, str]) -> bool:
    """Tells whether an object's custom metadata have anything of ours: such an object is encrypted, or spoilt."""
    return any(name.lower().startswith(PREFIX) for name in metadata)


def read(metadata: Mapping[str, str]) -> Envelope:
    """Returns the envelope that an object's custom metadata hold. Raises Malformed when it is none, or not whole."""
    ours = {name.lower(): value for name, value in metadata.items() if name.lower() in NAMES}
    if missing := sorted(NAMES - set(ours)):
        raise Malformed(f"the object's metadata lack {', '.join(missing)}")
    if ours[_VERSION] != str(VERSION):
        raise Malformed(f"the object has format {ours[_VERSION][:20]!r}; this program reads {VERSION}")
    if not ours[_SEGMENT].isascii() or not ours[_SEGMENT].isdigit() or len(ours[_SEGMENT]) > 9:
        raise Malformed(f"{_SEGMENT} is no number")
    try:
        object_id = bytes.fromhex(ours[_OBJECT])
        wrapped = base64.b64decode(ours[_WRAPPED], validate=True)
    except (ValueError, binascii.Error) as error:
        raise Malformed(f"the object's metadata cannot be read: {error}") from error
    if len(object_id) != OBJECT_ID_BYTES or not 0 < len(wrapped) <= _LARGEST_WRAP_BYTES:
        raise Malformed("the object's id or wrapped key has a length that none has")
    return Envelope(object_id, ours[_KEY], wrapped, Layout(int(ours[_SEGMENT])))


def without_ours(metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns the custom metadata that are the client's own."""
    return {name: value for name, value in metadata.items() if not name.lower().startswith(PREFIX)}
