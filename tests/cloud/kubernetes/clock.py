"""What time it is in the cluster, in the forms its objects use; a test may set the cluster's clock wrong."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import format_datetime

_skew = {"seconds": 0.0}


def skew(seconds: float) -> None:
    """Lets the cluster's clock go ahead (or behind, negative) of this machine's."""
    _skew["seconds"] = seconds


def nanoseconds() -> int:
    """Returns the cluster's time in nanoseconds since 1970."""
    return time.time_ns() + int(_skew["seconds"] * 1e9)


def seconds_text(after: float = 0.0) -> str:
    """Returns metav1.Time: whole seconds."""
    return _text(nanoseconds() + int(after * 1e9), "%Y-%m-%dT%H:%M:%SZ")


def micro_text() -> str:
    """Returns metav1.MicroTime."""
    return _text(nanoseconds(), "%Y-%m-%dT%H:%M:%S.%fZ")


def nano_text(at: int) -> str:
    """Returns RFC3339Nano as a container runtime stamps it on a line."""
    return f"{_text(at, '%Y-%m-%dT%H:%M:%S')}.{at % 1_000_000_000:09d}Z"


def http_text() -> str:
    """Returns what an answer's Date header says."""
    return format_datetime(datetime.fromtimestamp(nanoseconds() // 1_000_000_000, UTC), usegmt=True)


def parsed(text: str) -> float:
    """Returns the seconds since 1970 of one of the above."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def since(text: str) -> float:
    """Returns how many seconds ago, by the cluster's clock, a time was."""
    return nanoseconds() / 1e9 - parsed(text)


def _text(at: int, form: str) -> str:
    whole = datetime.fromtimestamp(at // 1_000_000_000, UTC)
    return whole.replace(microsecond=at % 1_000_000_000 // 1000).strftime(form)
