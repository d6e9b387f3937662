"""A key pair for one lease: made here, its private half never leaves its folder."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path

from runtime.contract.errors import InfrastructureError
from tasks.cloud.local_storage import replacing

_METADATA = "ssh-keys"


def make_key(file: Path, comment: str) -> str:
    """Makes an ed25519 key pair unless it is there; returns the public half ("ssh-ed25519 AAAA… comment").

    The private half is at `file`, readable by this user only; the public one beside it.
    """
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = file.with_name(f"{file.name}.pub")
    try:
        if not (file.exists() and public.exists()):
            key = Ed25519PrivateKey.generate()
            private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption())
            told = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH).decode()
            # Whole or not at all: a key cut short would be taken for one that is there.
            with replacing(file, 0o600) as stream:
                stream.write(private)
            with replacing(public, 0o644) as stream:
                stream.write(f"{told} {comment}\n".encode())
        return public.read_text().strip()
    except OSError as error:
        raise InfrastructureError(f"cannot make an SSH key in {file.parent}: {error.strerror}") from error


def with_key(
    metadata: Mapping[str, str], user: str, public_key: str, expires_at: float | None = None
) -> Mapping[str, str]:
    """Returns the metadata of a VM with a key for a user added, as Google's guest agent reads it; once only.

    `expires_at`, seconds since the epoch: the agent takes the key away then, even when nobody else does.
    """
    line = f"{user}:{public_key}"
    if expires_at is not None:
        until = datetime.datetime.fromtimestamp(expires_at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
        kind_and_data = " ".join(public_key.split()[:2])
        line = f"{user}:{kind_and_data} google-ssh {json.dumps({'userName': user, 'expireOn': until})}"
    return {**metadata, _METADATA: "\n".join([*_others(metadata, public_key), line])}


def without_key(metadata: Mapping[str, str], public_key: str) -> Mapping[str, str]:
    """Returns the metadata of a VM without a key."""
    others = _others(metadata, public_key)
    rest = {name: value for name, value in metadata.items() if name != _METADATA}
    return {**rest, _METADATA: "\n".join(others)} if others else rest


def _others(metadata: Mapping[str, str], public_key: str) -> list[str]:
    data = public_key.split()[1]
    return [line for line in metadata.get(_METADATA, "").splitlines() if line and data not in line.split()]
