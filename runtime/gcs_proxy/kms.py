"""Cloud KMS as one of Tink's AEADs, over gRPC.

Google's own client for it takes 65 MiB and three seconds to import; of its API, two methods are needed.
"""

from __future__ import annotations

import functools
from typing import Any

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tink import aead

from runtime.contract.keymap import KMS

ENDPOINT = "cloudkms.googleapis.com:443"
_SERVICE = "google.cloud.kms.v1.KeyManagementService"
_SCOPE = "https://www.googleapis.com/auth/cloudkms"
_PATIENCE_S = 20.0
_TRIES = 3
_PASSING = frozenset(
    ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL", "ABORTED", "UNKNOWN", "CANCELLED")
)
"""States in which asking again may help; RESOURCE_EXHAUSTED is a quota of calls in a minute."""

_BYTES, _STRING, _INT64, _BOOL = 12, 9, 3, 8
_MESSAGES: dict[str, dict[str, tuple[int, int | str]]] = {
    # A google.protobuf.Int64Value is a message with one field.
    "Number": {"value": (1, _INT64)},
    "EncryptRequest": {
        "name": (1, _STRING),
        "plaintext": (2, _BYTES),
        "additional_authenticated_data": (3, _BYTES),
        "plaintext_crc32c": (7, "Number"),
        "additional_authenticated_data_crc32c": (8, "Number"),
    },
    "EncryptResponse": {
        "ciphertext": (2, _BYTES),
        "ciphertext_crc32c": (4, "Number"),
        "verified_plaintext_crc32c": (5, _BOOL),
        "verified_additional_authenticated_data_crc32c": (6, _BOOL),
    },
    "DecryptRequest": {
        "name": (1, _STRING),
        "ciphertext": (2, _BYTES),
        "additional_authenticated_data": (3, _BYTES),
        "ciphertext_crc32c": (5, "Number"),
        "additional_authenticated_data_crc32c": (6, "Number"),
    },
    "DecryptResponse": {"plaintext": (1, _BYTES), "plaintext_crc32c": (2, "Number")},
}


class KeyDenied(Exception):
    """A key is not to be had, and will not be by asking again."""


class KeyUnavailable(Exception):
    """A key service does not answer as it should now."""


class CloudKms(aead.Aead):  # type: ignore[misc]
    """Encrypts and decrypts by a key of Cloud KMS. Raises KeyDenied and KeyUnavailable. Threads may share one."""

    def __init__(self, uri: str, endpoint: str | None = None) -> None:
        """Connects when it is first used. At `endpoint`, where one is given, nobody demands TLS or who we are."""
        self._name = uri.removeprefix(KMS)
        self._endpoint = endpoint

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        """Returns the ciphertext."""
        answer = self._ask("Encrypt", plaintext, associated_data, "plaintext")
        if not (
            answer.verified_plaintext_crc32c
            and answer.verified_additional_authenticated_data_crc32c
            and answer.ciphertext_crc32c.value == google_crc32c.value(answer.ciphertext)
        ):
            raise KeyUnavailable("what Cloud KMS was asked, or what it answered, was damaged on its way")
        return bytes(answer.ciphertext)

    def decrypt(self, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Returns the plaintext."""
        answer = self._ask("Decrypt", ciphertext, associated_data, "ciphertext")
        if answer.plaintext_crc32c.value != google_crc32c.value(answer.plaintext):
            raise KeyUnavailable("what Cloud KMS answered was damaged on its way")
        return bytes(answer.plaintext)

    def _ask(self, method: str, text: bytes, associated: bytes, field: str) -> Any:
        import grpc

        request = _messages()[f"{method}Request"](name=self._name, additional_authenticated_data=associated)
        setattr(request, field, text)
        getattr(request, f"{field}_crc32c").value = google_crc32c.value(text)
        request.additional_authenticated_data_crc32c.value = google_crc32c.value(associated)
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                return self._methods[method](request, timeout=_PATIENCE_S / _TRIES)
            except grpc.RpcError as error:
                status, told = error.code(), f"{self._name}: {error.code().name}: {error.details()}"
                if status.name not in _PASSING:
                    raise KeyDenied(told) from None
                if last:
                    raise KeyUnavailable(told) from None
        raise AssertionError

    @functools.cached_property
    def _methods(self) -> dict[str, Any]:
        channel, messages = _channel(self._endpoint), _messages()
        return {
            method: channel.unary_unary(
                f"/{_SERVICE}/{method}",
                request_serializer=messages[f"{method}Request"].SerializeToString,
                response_deserializer=messages[f"{method}Response"].FromString,
                _registered_method=True,
            )
            for method in ("Encrypt", "Decrypt")
        }


def _channel(endpoint: str | None) -> Any:
    import grpc

    if endpoint:
        return grpc.insecure_channel(endpoint)
    import google.auth
    from google.auth.transport.grpc import secure_authorized_channel
    from google.auth.transport.requests import Request

    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except google.auth.exceptions.DefaultCredentialsError as error:
        raise KeyDenied(f"there are no credentials for Cloud KMS: {error}") from error
    return secure_authorized_channel(credentials, Request(), ENDPOINT)  # type: ignore[no-untyped-call]


@functools.cache
def _messages() -> dict[str, Any]:
    """Returns the classes of the messages that are exchanged, by name."""
    package = "slicebench.kms"
    file = descriptor_pb2.FileDescriptorProto(name="slicebench_kms.proto", package=package, syntax="proto3")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for field, (number, kind) in fields.items():
            nested = isinstance(kind, str)
            described.field.add(
                name=field,
                number=number,
                label=1,
                type=11 if nested else kind,
                type_name=f".{package}.{kind}" if nested else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{package}.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}
