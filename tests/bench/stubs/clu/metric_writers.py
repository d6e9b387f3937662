"""Writers that write nothing, with the one function that Orbax's harness calls."""

from __future__ import annotations

from typing import Any


class SilentWriter:
    """Takes every call of a clu writer."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def create_default_writer(*args: Any, **kwargs: Any) -> SilentWriter:
    """Returns a writer that writes nothing."""
    return SilentWriter()
