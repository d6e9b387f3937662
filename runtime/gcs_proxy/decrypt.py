"""Decrypts an object from a file that holds its bytes and one that holds what the service says of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from runtime.contract.errors import BadInput
from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.keys import KeyRing
from runtime.gcs_proxy.seal import Opener, opened


def decrypt_file(sealed: Path, resource: Path, output: Path, keys: KeyRing) -> None:
    """Writes the plaintext to `output`, which is there only once all of it was found authentic.

    Raises BadInput, Malformed, KeyDenied, KeyUnavailable.
    """
    _refuse_what_is_no_file(sealed, output)
    told = _resource(resource)
    if output.exists() and any(output.samefile(given) for given in (sealed, resource)):
        raise BadInput(f"--output {output} is one of the files to read")
    bucket, name = told["bucket"], told["name"]
    found = envelope.read(told.get("metadata") or {})
    plain = found.layout.plain_size(sealed.stat().st_size)
    opener = Opener(keys.data_key(found, bucket, name), found.object_id, found.layout, plain)
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        # What was encrypted is for its owner alone, as the key is.
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as target, sealed.open("rb") as source:
            for part in opened(opener, _segments(source, found.layout.segment_bytes)):
                target.write(part)
        partial.replace(output)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(error.filename or output)) from error
    finally:
        partial.unlink(missing_ok=True)


def _refuse_what_is_no_file(sealed: Path, output: Path) -> None:
    """The plaintext takes the place of what has its name: a device or a link would be gone."""
    if not sealed.is_file():
        raise BadInput(f"there is no file {sealed}", fix="download the object as it lies in the bucket")
    if output.is_symlink() or (output.exists() and not output.is_file()):
        raise BadInput(f"--output {output} exists and is not a file", fix="--output FILE")
    if not output.parent.is_dir():
        raise BadInput(f"there is no folder {output.parent}", fix="name a file in a folder that exists")


def _segments(source: BinaryIO, size: int) -> Iterator[bytes]:
    while segment := source.read(size):
        yield segment


def _resource(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    if not isinstance(told, dict) or not all(
        isinstance(told.get(field), str) for field in ("bucket", "name")
    ):
        raise BadInput(
            f"{path} is not what the JSON API says of an object: it has no bucket and name",
            fix="gcloud storage objects describe gs://BUCKET/OBJECT --raw --format=json",
        )
    return told
