"""One request for what a project has beside clusters, taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """`name` is the method's, as the log and the faults have it; `body` is `raw` where that is JSON, else empty."""

    name: str
    host: str
    verb: str
    path: str
    query: dict[str, str]
    body: dict[str, Any]
    raw: bytes

    @property
    def api(self) -> str:
        """The API that the host serves, whatever its region."""
        return "aiplatform.googleapis.com" if "aiplatform" in self.host else self.host


def split(path: str) -> tuple[str, str]:
    """Returns host and path of a request; Cloud Storage's own client names no host."""
    parts = path.lstrip("/").split("/", 1)
    if parts[0].endswith(".googleapis.com"):
        return parts[0], parts[1] if len(parts) > 1 else ""
    return "storage.googleapis.com", path.lstrip("/")
