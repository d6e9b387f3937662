"""Finds a config file by path or by its name in configs/, and says what there is when it finds none."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from runtime.contract.errors import BadInput, Problem

Kind = Literal["suites", "targets", "nightly", "acceptance", "environments"]

_SHOWN = 80
"""Characters of a name that are told."""
_CHECKOUT = Path(__file__).parents[2]


def config_folders(kind: Kind) -> Iterator[Path]:
    """Yields the folders a bare name is looked up in: the current directory's configs/ first, then slicebench's own."""
    for root in dict.fromkeys((Path.cwd(), _CHECKOUT)):
        folder = root / "configs" / kind
        if folder.is_dir():
            yield folder


def locate(word: str, kind: Kind) -> Path:
    """Returns the absolute path of a config file. Raises BadInput, naming the nearest names, when there is none."""
    if not word:
        raise BadInput(f"the name of a file of configs/{kind} is empty", fix=_known(word, kind))
    try:
        path = Path(word).expanduser()
        is_file, is_folder = path.is_file(), path.is_dir()
        if is_file:
            return path.resolve()
        other = not is_folder and path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # no name of a file, no such user, no right to look
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{shortened(word)} cannot be looked for: {why}", fix=_known(word, kind)) from None
    if other:
        raise BadInput(
            f"{word} is there, and no file: a pipe, say, or a device", fix="write what it says into a file"
        )
    if is_folder:
        raise BadInput(
            f"{word} is a folder, not a file of configs/{kind}",
            fix=f"name a YAML file in it, e.g. {word}/NAME.yaml",
        )
    if "/" not in word and (found := named(word, kind)) is not None:
        return found
    raise BadInput(Problem("error", None, f"there is no {kind.rstrip('s')} {word!r}", fix=_known(word, kind)))


def named(word: str, kind: Kind) -> Path | None:
    """Returns the absolute path of what is called by its name in configs/; None when there is none of that name."""
    for folder in config_folders(kind):
        for candidate in (folder / word, folder / f"{word}.yaml"):
            with suppress(OSError, ValueError):  # too long for a name
                if candidate.is_file():
                    return candidate.resolve()
    return None


def shortened(word: str) -> str:
    """Returns a name for people, of which a line is enough."""
    return word if len(word) <= _SHOWN else f"{word[:_SHOWN]}…"


def _known(word: str, kind: Kind) -> str:
    names = sorted({file.stem for folder in config_folders(kind) for file in folder.glob("*.yaml")})
    near = difflib.get_close_matches(Path(word).stem, names, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"name a file, or one of: {', '.join(names)}" if names else "name a file"
