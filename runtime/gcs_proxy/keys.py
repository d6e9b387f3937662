"""Wraps and unwraps data keys with Tink: by Cloud KMS, or by a keyset in a local file."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable
from pathlib import Path

import tink
from tink import aead, cleartext_keyset_handle

from runtime.contract.errors import BadInput
from runtime.contract.keymap import KeyRef
from runtime.contract.loopback import is_loopback
from runtime.gcs_proxy.envelope import DATA_KEY_BYTES, Envelope, binding, new_data_key, new_object_id
from runtime.gcs_proxy.format import Layout
from runtime.gcs_proxy.kms import CloudKms, KeyDenied

_KEYSET_CHARACTERS = 1 << 20
"""More than any keyset has."""
_OTHERS_MAY = stat.S_IRWXG | stat.S_IRWXO


class KeyRing:
    """The keys a program was given. Objects that name another key are not opened, whoever could."""

    def __init__(
        self,
        keys: Iterable[KeyRef],
        kms_endpoint: str | None = None,
        *,
        old: Iterable[KeyRef] = (),
        mounted: bool = False,
    ) -> None:
        """Reads the files among them. Raises BadInput.

        `old`: keys that objects of any place may still be wrapped by. `mounted`: others may read the files, by their
        modes.
        """
        aead.register()
        if kms_endpoint and not _is_here(kms_endpoint):
            raise BadInput(
                f"{kms_endpoint!r} is asked without TLS: whoever is on the way could read data keys",
                fix="a stand-in of Cloud KMS on this machine: 127.0.0.1:PORT",
            )
        self._endpoint, self._lock = kms_endpoint, threading.Lock()
        earlier = tuple(old)
        self._old = frozenset(key.uri for key in earlier)
        self._known = {key.uri: key for key in (*keys, *earlier)}
        self._ready: dict[str, aead.Aead] = {
            key.uri: _from_file(key.path, mounted) for key in self._known.values() if key.path
        }

    def new(self, key: KeyRef, bucket: str, name: str) -> tuple[bytes, Envelope]:
        """Returns the data key of a new object and its envelope. Raises KeyDenied, KeyUnavailable."""
        data_key, object_id, layout = new_data_key(), new_object_id(), Layout()
        return data_key, self._wrapped(key.uri, data_key, object_id, layout, bucket, name)

    def rewrap(self, data_key: bytes, envelope: Envelope, key: KeyRef, bucket: str, name: str) -> Envelope:
        """Returns the envelope of a copy of an object, which lies elsewhere. Raises as `new` does."""
        return self._wrapped(key.uri, data_key, envelope.object_id, envelope.layout, bucket, name)

    def data_key(self, envelope: Envelope, bucket: str, name: str, key: KeyRef | None = None) -> bytes:
        """Returns the data key of an object that lies there. Raises KeyDenied, KeyUnavailable.

        `key` is that of the place: whoever has another one of these could else forge objects there. None: any will do.
        """
        if envelope.key_uri not in self._known:
            known = ", ".join(sorted(self._known)) or "none"
            raise KeyDenied(
                f"the object's key is {envelope.key_uri[:300]!r}, which was not given here ({known}); an "
                "earlier key of the same place is given by --old-key"
            )
        if key is not None and envelope.key_uri != key.uri and envelope.key_uri not in self._old:
            raise KeyDenied(
                f"the object's key is {envelope.key_uri!r}, and that of its place is {key.uri}: an earlier key of the "
                "same place is given by --old-key"
            )
        try:
            opened: bytes = self._aead(envelope.key_uri).decrypt(
                envelope.wrapped_key, envelope.bound_to(bucket, name)
            )
        except tink.TinkError:
            raise KeyDenied(
                f"{envelope.key_uri} does not open the object's data key: it was wrapped by another key, or for "
                f"another place than gs://{bucket}/{name}, or its metadata were changed"
            ) from None
        if len(opened) != DATA_KEY_BYTES:
            raise KeyDenied("the object's data key has a length that none has")
        return opened

    def _wrapped(
        self, uri: str, data_key: bytes, object_id: bytes, layout: Layout, bucket: str, name: str
    ) -> Envelope:
        bound = binding(layout, object_id, bucket, name)
        return Envelope(object_id, uri, self._aead(uri).encrypt(data_key, bound), layout)

    def _aead(self, uri: str) -> aead.Aead:
        with self._lock:
            if uri not in self._ready:
                self._ready[uri] = CloudKms(uri, self._endpoint)
            return self._ready[uri]


def _is_here(endpoint: str) -> bool:
    return is_loopback(endpoint.rpartition(":")[0].strip("[]"))


def make_key_file(path: Path) -> None:
    """Writes a new AES-256-GCM keyset, as Tink's JSON, for its owner alone. Raises BadInput where there is a file."""
    aead.register()
    handle = tink.new_keyset_handle(aead.aead_key_templates.AES256_GCM)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise BadInput(f"no key can be written to {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w") as file:
            cleartext_keyset_handle.write(tink.JsonKeysetWriter(file), handle)
    except OSError as error:
        path.unlink(missing_ok=True)  # half a key is none
        raise BadInput(f"no key can be written to {path}: {error.strerror}") from error


def _from_file(path: Path, mounted: bool) -> aead.Aead:
    try:
        # A pipe that nobody writes to would be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise BadInput(
                    f"the key file {path} is no regular file", fix="name a keyset of Tink, in JSON"
                )
            text = file.read(_KEYSET_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the key file {path} cannot be read: {error}") from error
    if len(text) > _KEYSET_CHARACTERS:
        raise BadInput(f"{path} is too large for a key file", fix="name a keyset of Tink, in JSON")
    if mode & _OTHERS_MAY and not mounted:
        raise BadInput(f"others may read the key file {path}", fix=f"chmod 600 {path}")
    try:
        handle = cleartext_keyset_handle.read(tink.JsonKeysetReader(text))
        primitive: aead.Aead = handle.primitive(aead.Aead)
    except Exception:  # noqa: BLE001 Tink raises what protobuf, JSON and C++ do, and none of their texts may be told
        raise BadInput(
            f"{path} is no keyset of Tink for AEAD, in JSON", fix="make one by new-key, or by tinkey"
        ) from None
    return primitive
