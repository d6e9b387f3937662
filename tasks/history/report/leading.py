"""How a page leads to a file: relatively where both lie in one place, so that they may be moved together. Pure."""

from __future__ import annotations

import posixpath
from pathlib import Path
from urllib.parse import quote

_BROWSER = "https://storage.cloud.google.com/"
"""Shows objects of a bucket to whoever is logged in and may read them."""


def leading(folder: str, file: str) -> str:
    """Returns the link to a file, from a page right in a folder. Both are paths, or gs://bucket/…"""
    here, there = _root(folder), _root(file)
    if here == there:
        return quote(posixpath.relpath(file.removeprefix(there), folder.removeprefix(here) or "/"))
    return _BROWSER + quote(file.removeprefix("gs://")) if there else Path(file).as_uri()


def _root(uri: str) -> str:
    """Returns the bucket; empty: it is a path of this machine."""
    return "/".join(uri.split("/")[:3]) if uri.startswith("gs://") else ""
