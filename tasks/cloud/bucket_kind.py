"""What kind of bucket an output lies in: numbers of another storage class or another place are not comparable."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

from tasks.cloud.container_errors import NotFound, PermissionDenied
from tasks.cloud.google_rest import Rest
from tasks.cloud.gs_storage import GsFolder
from tasks.cloud.storage import Folder


def bucket_kind(folder: Folder) -> str | None:
    """Returns storage class and location, such as `STANDARD us-east5`; None where it is no bucket, or does not tell.

    Who may read and write objects often may not look at their bucket (storage.buckets.get). Then each object tells its
    class, and the service tells where it is to whoever may list them. Raises InfrastructureError when nobody answers.
    """
    if not isinstance(folder, GsFolder):
        return None
    if (told := folder.looked_at()) is not None:
        return told
    found = folder.class_of_objects()
    with suppress(NotFound, PermissionDenied):
        layout = Rest("storage.googleapis.com").get(
            f"look where bucket {folder.bucket} is", f"storage/v1/b/{quote(folder.bucket)}/storageLayout"
        )
        return " ".join(filter(None, (found, str(layout.get("location", "")).lower()))) or None
    return found
