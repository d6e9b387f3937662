"""A folder in Cloud Storage. STORAGE_EMULATOR_HOST leads to a stand-in, without credentials."""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from runtime.contract.errors import InfrastructureError
from tasks.cloud.calls import UNANSWERED, Unanswered, calling
from tasks.cloud.google_calls import stand_in_token
from tasks.cloud.storage import checked_name

if TYPE_CHECKING:
    from google.api_core.exceptions import NotFound
    from google.cloud import storage

_CALL_S = (10.0, 60.0)
"""Seconds to connect, and to wait for the next bytes."""
_RETRY_S = 120.0
"""How long a call is repeated while the service is unavailable, throttles us, or drops the connection."""
_LONGEST_S = _RETRY_S + sum(_CALL_S)
_WRITER = "slicebench-writer"


def bucket_of(name: str) -> storage.Bucket:
    """Returns a bucket as this process sees it; asks nothing outside."""
    return _client(os.environ.get("STORAGE_EMULATOR_HOST"), stand_in_token(), os.getpid()).bucket(name)


@functools.cache
def _client(emulator: str | None, token: str, pid: int) -> storage.Client:
    """Returns the client of a process: connections must not be shared with one that was forked."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage
    from google.oauth2.credentials import Credentials

    if emulator:
        login = Credentials(token) if token else AnonymousCredentials()  # type: ignore[no-untyped-call]
        return storage.Client(project="emulated", credentials=login)
    return storage.Client()


class GsFolder:
    """See Folder. `prefix` is without slashes at its ends; empty: the whole bucket."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self.bucket = bucket
        self.prefix = prefix
        self.uri = f"gs://{bucket}/{prefix}".rstrip("/")

    def __repr__(self) -> str:
        return f"GsFolder({self.uri!r})"

    def read(self, name: str, start: int = 0) -> bytes | None:
        """See Folder."""
        from google.api_core.exceptions import NotFound, RequestRangeNotSatisfiable

        with self._told("read", name):
            try:
                content: bytes = self._blob(name).download_as_bytes(
                    start=start or None, timeout=_CALL_S, retry=_retry()
                )
                return content
            except RequestRangeNotSatisfiable:
                return b""
            except NotFound as error:
                if is_of_bucket(error):
                    raise
                return None

    def write(self, name: str, content: bytes) -> None:
        """See Folder."""
        with self._told("write", name):
            self._blob(name).upload_from_string(
                content, content_type="application/octet-stream", timeout=_CALL_S, retry=_retry()
            )

    def create(self, name: str, content: bytes) -> bool:
        """See Folder."""
        from google.api_core.exceptions import PreconditionFailed

        blob = self._blob(name)
        writer = uuid.uuid4().hex
        blob.metadata = {_WRITER: writer}
        with self._told("create", name):
            try:
                blob.upload_from_string(
                    content,
                    content_type="application/octet-stream",
                    if_generation_match=0,
                    timeout=_CALL_S,
                    retry=_retry(),
                )
            except PreconditionFailed:
                # The reply to our first try may have been lost: then what is there carries our own mark.
                there = self._bucket().get_blob(blob.name, timeout=_CALL_S, retry=_retry())
                return there is not None and (there.metadata or {}).get(_WRITER) == writer
        return True

    def names(self, prefix: str = "") -> Iterator[str]:
        """See Folder."""
        yield from (name for name, _ in self.sizes(prefix, "name"))

    def sizes(self, prefix: str = "", fields: str = "name,size") -> Iterator[tuple[str, int]]:
        """Yields name and size of all files below `prefix`, as `names` does; all sizes 0 where `fields` lacks them."""
        prefix = prefix.strip("/")
        below = "/".join(part for part in (self.prefix, checked_name(prefix) if prefix else "") if part)
        with self._told("list", prefix):
            blobs = self._bucket().list_blobs(
                prefix=f"{below}/" if below else None,
                fields=f"items({fields}),nextPageToken",
                timeout=_CALL_S,
                retry=_retry(),
            )
            found = [(blob.name, blob.size or 0) for blob in blobs]
        strip = len(self.prefix) + 1 if self.prefix else 0
        # Names that end in a slash are the folders that the console makes: no files.
        yield from sorted((name[strip:], size) for name, size in found if not name.endswith("/"))

    def folders(self) -> Iterator[str]:
        """See Folder."""
        below = f"{self.prefix}/" if self.prefix else ""
        with self._told("list", ""):
            pages = self._bucket().list_blobs(
                prefix=below or None,
                delimiter="/",
                fields="prefixes,nextPageToken",
                timeout=_CALL_S,
                retry=_retry(),
            )
            for _ in pages:  # The prefixes are known only once the pages have been read.
                pass
            found = {prefix.removeprefix(below).rstrip("/") for prefix in pages.prefixes}
        yield from sorted(found - {""})

    def delete(self, name: str) -> None:
        """See Folder."""
        from google.api_core.exceptions import NotFound

        with self._told("delete", name):
            try:
                self._blob(name).delete(timeout=_CALL_S, retry=_retry())
            except NotFound:
                return

    def child(self, name: str) -> GsFolder:
        """See Folder."""
        return GsFolder(self.bucket, f"{self.prefix}/{checked_name(name)}".lstrip("/"))

    def upload(self, source: str, name: str) -> None:
        """See Folder."""
        with self._told("upload", name):
            self._blob(name).upload_from_filename(source, timeout=_CALL_S, retry=_retry())

    def granted(self, permissions: Sequence[str]) -> frozenset[str] | None:
        """Returns which of these permissions we have on the bucket; None where the service does not say.

        Raises InfrastructureError when there is no such bucket.
        """
        from google.api_core.exceptions import NotFound

        with self._told("permissions on", ""):
            try:
                found = self._bucket().test_iam_permissions(
                    list(permissions), timeout=_CALL_S, retry=_retry()
                )
                return frozenset(found)
            except NotFound:  # no bucket, or a stand-in that knows no permissions
                list(self._bucket().list_blobs(max_results=1, timeout=_CALL_S, retry=_retry()))
        return None

    def looked_at(self) -> str | None:
        """Returns the bucket's storage class and location; None where we may not look at it."""
        from google.api_core.exceptions import Forbidden

        bucket = self._bucket()
        with self._told("look at", ""):
            try:
                bucket.reload(timeout=_CALL_S, retry=_retry())
            except Forbidden:
                return None
        return f"{bucket.storage_class} {str(bucket.location).lower()}"

    def class_of_objects(self) -> str | None:
        """Returns the storage class of an object in the folder; None where there is none."""
        with self._told("list", ""):
            found = self._bucket().list_blobs(
                prefix=f"{self.prefix}/".lstrip("/"), max_results=1, timeout=_CALL_S, retry=_retry()
            )
            return next((str(blob.storage_class) for blob in found if blob.storage_class), None)

    def _bucket(self) -> storage.Bucket:
        return bucket_of(self.bucket)

    def _blob(self, name: str) -> storage.Blob:
        return self._bucket().blob(f"{self.prefix}/{checked_name(name)}".lstrip("/"))

    def _told(self, doing: str, name: str) -> AbstractContextManager[None]:
        # How long an upload takes is a matter of its size, and no wait for an answer.
        within_s = None if doing == "upload" else _LONGEST_S
        return told(doing, f"{self.uri}/{name}".rstrip("/"), self.bucket, within_s)


def is_of_bucket(missing: NotFound) -> bool:
    """Says whether it is the bucket that is not there, rather than an object in it."""
    return "bucket does not exist" in str(missing)


@contextmanager
def told(doing: str, where: str, bucket: str, within_s: float | None) -> Iterator[None]:
    """Around a call: turns what the client raises into InfrastructureError, with the place and what to do.

    It takes so many seconds at most, all its tries together.
    """
    from google.api_core.exceptions import Forbidden, GoogleAPIError, NotFound, RetryError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    try:
        with calling("gs", f"{doing} {where}", within_s):
            yield
    except GoogleAuthError as error:
        fix = "log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
        raise InfrastructureError(f"{where}: no valid Google credentials: {error}; {fix}") from error
    except Forbidden as error:
        fix = f"the account needs roles/storage.objectAdmin on gs://{bucket}"
        raise InfrastructureError(f"{where}: {error.message}; {fix}") from error
    except NotFound as error:
        fix = f"is the name right? gcloud storage buckets create gs://{bucket} makes a missing bucket"
        raise InfrastructureError(f"{where}: {error.message}; {fix}") from error
    except RetryError as error:
        raise Unanswered(f"{where}: {error.cause or error}; {UNANSWERED}") from error
    except (GoogleAPIError, RequestException, OSError) as error:
        raise InfrastructureError(f"{where}: {error}") from error


def _retry() -> Any:
    from google.cloud.storage.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(_RETRY_S)
