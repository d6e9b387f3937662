"""Which files of a folder go into an image: all but what .dockerignore names, by Docker's rules."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pathspec import PathSpec

from runtime.contract.errors import BadInput, Place, Problem

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


_PATTERN = re.compile(r"(?:[^\\\[]|\\.|\[\^?+(?:[^\\\]]|\\.)+\])*")
"""Whole characters, escaped ones, and classes that end."""


def ignored(lines: Iterable[str]) -> PathSpec[Any]:
    """Returns what the lines of a .dockerignore leave out. Source: Docker's reference of the file.

    Unlike git's, each pattern starts at the top, a trailing slash says nothing, and a file may be taken back in though
    its folder is left out: the last pattern that fits the file or a folder above it decides.
    """
    return PathSpec.from_lines("gitignore", (*_anchored(ALWAYS), *_anchored(lines)))


def read_ignored(folder: Path) -> PathSpec[Any]:
    """Returns what the .dockerignore of a folder leaves out; without one only what is always left out.

    Raises BadInput for what Docker refuses: what it was to leave out would be in the image else.
    """
    file = folder / IGNORE_FILE
    if not file.is_file():
        return ignored(())
    # utf-8-sig: editors on Windows begin files with a mark, which Docker skips too. Names of files are any bytes.
    text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
    if "\0" in text:
        raise BadInput(f"{file} is not text", fix="save it as UTF-8")
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.startswith("#") and (why := _wrong(line.strip())):
            place = Place(str(file), number, 1)
            raise BadInput(
                Problem("error", place, f"{line.strip()!r} {why}", fix="see Docker's reference of the file")
            )
    return ignored(lines)


def _wrong(pattern: str) -> str:
    """Returns why Docker refuses a pattern; empty where it does not."""
    if pattern == "!":
        return "takes nothing back in"
    if _PATTERN.fullmatch(pattern) is None:
        return "is no pattern: a [ without its ], or a \\ at its end"
    return ""


def _anchored(lines: Iterable[str]) -> Iterator[str]:
    """Yields Docker's patterns as git's that mean the same."""
    for line in lines:
        pattern = line.strip()
        if line.startswith("#") or not pattern:
            continue
        back = pattern.startswith("!")
        pattern = posixpath.normpath(pattern.removeprefix("!").strip() or ".").lstrip("/")
        if pattern in ("", "."):
            continue  # the folder itself: Docker leaves nothing out for it
        sign = "!" if back else ""
        yield f"{sign}/{pattern}"
        if (
            posixpath.basename(pattern) == "*"
        ):  # to git that is what lies right there, to Docker what is below it too
            yield f"{sign}/{pattern}/**"
