"""Which files of a folder go into an image: all but what .dockerignore names, by Docker's rules."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pathspec import PathSpec

IGNORE_FILE = ".dockerignore"
ALWAYS = (
    "**/.git",
    "**/.hg",
    "**/__pycache__",
    "**/.venv",
    "**/.mypy_cache",
    "**/.pytest_cache",
    "**/.ruff_cache",
)
"""Left out unless .dockerignore takes it back in (`!**/.git`): histories, which may hold credentials, and caches."""


def ignored(lines: Iterable[str]) -> PathSpec[Any]:
    """Returns what the lines of a .dockerignore leave out. Source: Docker's reference of the file.

    Unlike git's, each pattern starts at the top, a trailing slash says nothing, and a file may be taken back in though
    its folder is left out: the last pattern that fits the file or a folder above it decides.
    """
    return PathSpec.from_lines("gitignore", (*_anchored(ALWAYS), *_anchored(lines)))


def read_ignored(folder: Path) -> PathSpec[Any]:
    """Returns what the .dockerignore of a folder leaves out; without one only what is always left out."""
    file = folder / IGNORE_FILE
    # utf-8-sig: editors on Windows begin files with a mark, which Docker skips too.
    return ignored(file.read_text(encoding="utf-8-sig").splitlines() if file.is_file() else ())


def _anchored(lines: Iterable[str]) -> Iterator[str]:
    """Yields Docker's patterns as git's that mean the same."""
    for line in lines:
        pattern = line.strip()
        if line.startswith("#") or not pattern:
            continue
        back = pattern.startswith("!")
        pattern = posixpath.normpath(pattern.removeprefix("!").strip() or ".").lstrip("/")
        if pattern == ".":
            continue  # the folder itself: Docker leaves nothing out for it
        sign = "!" if back else ""
        yield f"{sign}/{pattern}"
        if (
            posixpath.basename(pattern) == "*"
        ):  # to git that is what lies right there, to Docker what is below it too
            yield f"{sign}/{pattern}/**"
