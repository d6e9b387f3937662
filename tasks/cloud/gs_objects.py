"""Objects in Cloud Storage by generation: compare-and-swap, for what many machines write to at once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.contract.errors import InfrastructureError
from tasks.cloud.gs_storage import bucket_of, is_of_bucket, told

if TYPE_CHECKING:
    from google.cloud import storage

_CALL_S = (3.0, 6.0)
"""Seconds to connect, and to wait for the next bytes."""

_SULK_S = 15.0
"""For so long after a call that failed for good, the next ones are tried once only: whoever has hardware to give
back must not wait again and again for a service that is out of reach.
"""

_WRITER = "slicebench-writer"


@dataclass(frozen=True)
class Stored:
    """An object as it was read: its bytes, and the generation that a swap of it must name."""

    content: bytes
    generation: int


class GsObjects:
    """Small objects below gs://bucket/prefix. Every method raises InfrastructureError when the service fails
    for longer than `patience_s`, in seconds.
    """

    def __init__(self, bucket: str, prefix: str, *, patience_s: float) -> None:
        self.uri = f"gs://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix}/".lstrip("/")
        self._patience_s = patience_s
        self._failed_at = float("-inf")

    def where(self, name: str) -> str:
        """Returns the URI of an object, for messages."""
        return f"{self.uri}/{name}"

    def read(self, name: str) -> Stored | None:
        """Returns the object in one request, so that content and generation belong together; None: not there."""
        from google.api_core.exceptions import NotFound

        blob = self._blob(name)
        with self._told("read", self.where(name)):
            try:
                content = blob.download_as_bytes(timeout=_CALL_S, retry=self._retry())
            except NotFound as error:
                if is_of_bucket(error):
                    raise
                return None
            return Stored(content, int(blob.generation))

    def swap(self, name: str, content: bytes, generation: int) -> int | None:
        """Writes if the object has this generation (0: is not there); returns the next, or None when somebody
        else was faster.

        Raises InfrastructureError when it is not known whether it was written: reading tells.
        """
        from google.api_core.exceptions import PreconditionFailed

        blob = self._blob(name)
        writer = uuid.uuid4().hex
        blob.metadata = {_WRITER: writer}
        with self._told("swap", self.where(name)):
            try:
                blob.upload_from_string(
                    content,
                    content_type="application/json",
                    if_generation_match=generation,
                    timeout=_CALL_S,
                    retry=self._retry(),
                )
            except PreconditionFailed:
                # When the reply to our first try was lost, the object that refuses our second one is our own.
                there = blob.bucket.get_blob(blob.name, timeout=_CALL_S, retry=self._retry())
                if there is None or (there.metadata or {}).get(_WRITER) != writer:
                    return None
                return int(there.generation)
            return int(blob.generation)

    def remove(self, name: str, generation: int) -> bool:
        """Deletes the object if it has this generation; returns False when somebody else wrote it since.

        One that is not there is no error: the reply to our own first try may have been lost.
        """
        from google.api_core.exceptions import NotFound, PreconditionFailed

        blob = self._blob(name)
        with self._told("delete", self.where(name)):
            try:
                blob.delete(if_generation_match=generation, timeout=_CALL_S, retry=self._retry())
            except PreconditionFailed:
                return False
            except NotFound as error:
                if is_of_bucket(error):
                    raise
        return True

    def exist(self) -> bool:
        """Says whether there is any object at all. Raises InfrastructureError when there is no such bucket."""
        return bool(self._names(at_most=1))

    def names(self) -> list[str]:
        """Returns the names of all objects, sorted, those in folders below included."""
        return sorted(self._names())

    def _names(self, at_most: int | None = None) -> list[str]:
        with self._told("list", self.uri):
            found = bucket_of(self._bucket).list_blobs(
                prefix=self._prefix or None,
                fields="items(name),nextPageToken",
                max_results=at_most,
                timeout=_CALL_S,
                retry=self._retry(),
            )
            names = [blob.name.removeprefix(self._prefix) for blob in found]
        return [name for name in names if name]

    @contextmanager
    def _told(self, doing: str, where: str) -> Iterator[None]:
        try:
            with told(doing, where, self._bucket, self._patience_s + sum(_CALL_S)):
                yield
        except InfrastructureError:
            self._failed_at = time.monotonic()
            raise
        self._failed_at = float("-inf")

    def _blob(self, name: str) -> storage.Blob:
        return bucket_of(self._bucket).blob(f"{self._prefix}{name}")

    def _retry(self) -> Any:
        """Returns how a call is repeated. All are safe to repeat: a write names the generation it replaces."""
        from google.cloud.storage.retry import DEFAULT_RETRY

        sulking = time.monotonic() - self._failed_at < _SULK_S
        patience_s = 0.1 if sulking else self._patience_s
        return DEFAULT_RETRY.with_delay(initial=0.2, maximum=5.0, multiplier=2.0).with_timeout(patience_s)
