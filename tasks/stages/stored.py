"""What lies in a store of checkpoints: objects and bytes of each, and whether who reads them can tell what it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.cloud.storage import Folder, sizes_in

_STEP = re.compile(r"(?:[a-z]+_)?0*(\d+)")
"""Folder of a checkpoint: 40, step_00000040. One that is being written has more in its name."""

_WHOLE = 4 << 20
"""Objects up to this size are looked at whole, of larger ones the end, bytes."""

_END = 64 << 10
_ALL_LOOKS = 256 << 20
"""After so many bytes no further object is looked at."""

_ENOUGH = 4096
"""Bytes of which it can be told whether they are evenly spread."""

_UNEVEN = 500.0
"""Chi-square of 256 values: 255 ± 23 where all are as likely, as they are in what is encrypted."""

_OCDBT = b"\x0c\xdb\x3a\x2a"
_LEAD = re.compile(
    r"(?:.*/)?(manifest\.ocdbt|_METADATA|_CHECKPOINT_METADATA|metadata|\.zarray|zarr\.json|index)"
)
"""Files without which nobody finds the arrays of a checkpoint: Orbax's, OCDBT's, Zarr's, axlearn's."""

_DONE = re.compile(r"^[^/]+/(commit_success\.txt|index)$")
"""What is written into a checkpoint's folder last: by Orbax, by axlearn."""

_MAGIC = (
    b"\x0c\xdb\x3a\x2a",
    b"\x0c\xdb\x20\xde",
    b"\x28\xb5\x2f\xfd",
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"\x93NUMPY",
)
"""How files of checkpoints begin: OCDBT's manifests and nodes, zstd, gzip, zip, numpy."""


@dataclass(frozen=True)
class StoredCheckpoint:
    """One checkpoint as it lies there."""

    step: int
    objects: int
    bytes: int


@dataclass(frozen=True)
class Stored:
    """All of them, by step. `looked`: how many objects were read; `readable`: those whose content is no secret.

    `committed`: steps that say of themselves to be complete. `tried`: the files that lead to arrays, `opened` those of
    them that say so to who reads the store itself.
    """

    checkpoints: Sequence[StoredCheckpoint] = ()
    looked: int = 0
    readable: Sequence[str] = ()
    tried: Sequence[str] = ()
    opened: Sequence[str] = ()
    committed: Sequence[int] = ()


def stored_in(folder: Folder, place: str) -> Stored:
    """Returns what lies in a folder below `folder`, read as anybody reads it who has the right to: past any proxy."""
    below = f"{place}/" if place else ""
    sizes = {name.removeprefix(below): size for name, size in sizes_in(folder, place)}
    looked, budget, readable = 0, _ALL_LOOKS, list[str]()
    tried: dict[str, bool] = {}
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        if not size or step_of(name) is None or min(size, _WHOLE) > budget:
            continue
        content = folder.read(f"{below}{name}", 0 if size <= _WHOLE else -_END) or b""
        budget -= len(content)
        looked += 1
        if tells(content):
            readable.append(name)
        if _LEAD.fullmatch(name):
            tried[name] = opens(name, content)
    opened = sorted(name for name, does in tried.items() if does)
    committed = sorted({step for name in sizes if _DONE.search(name) and (step := step_of(name)) is not None})
    found = checkpoints_of(sizes.items())
    return Stored(found, looked, sorted(readable), sorted(tried), opened, committed)


def checkpoints_of(sizes: Iterable[tuple[str, int]]) -> list[StoredCheckpoint]:
    """Returns the checkpoints that objects make up, by step; names relative to the folder that all are in."""
    found: dict[int, list[int]] = {}
    for name, size in sizes:
        step = step_of(name)
        if step is not None:
            found.setdefault(step, []).append(size)
    return [StoredCheckpoint(step, len(found[step]), sum(found[step])) for step in sorted(found)]


def step_of(name: str) -> int | None:
    """Returns the step of the checkpoint that an object is a part of; None: it is in none."""
    folder, slash, _ = name.partition("/")
    step = _STEP.fullmatch(folder)
    return int(step[1]) if slash and step else None


def opens(name: str, content: bytes) -> bool:
    """Says whether a file that leads to arrays makes sense to who reads it."""
    if name.endswith("manifest.ocdbt"):
        return content.startswith(_OCDBT)
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def tells(content: bytes) -> bool:
    """Says whether bytes are anything but random: what is encrypted is not to be told from that.

    Of fewer than a few thousand bytes only text and the beginnings of known files are recognised.
    """
    if content.startswith(_MAGIC):
        return True
    if len(content) >= 8 and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in content[:_ENOUGH]):
        return True
    if len(content) < _ENOUGH:
        return False
    expected = len(content) / 256
    counts = [content.count(value) for value in range(256)]
    return sum((count - expected) ** 2 for count in counts) / expected > _UNEVEN
