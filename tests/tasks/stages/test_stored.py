"""What lies in a store of checkpoints, and whether it is to be told from random bytes."""

from __future__ import annotations

import json
import os
import random
import struct
import zlib
from pathlib import Path

import pytest

from tasks.cloud.storage import open_folder
from tasks.stages.stored import Stored, StoredCheckpoint, checkpoints_of, step_of, stored_in, tells


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("40/state/d/abc", 40),
        ("0/_METADATA", 0),
        ("step_00000100/gda/x", 100),
        ("40", None),
        ("40.orbax-checkpoint-tmp-17/state/x", None),
        ("step/x", None),
        ("notes/40/x", None),
    ],
)
def test_an_object_is_a_part_of_the_checkpoint_whose_folder_it_is_in(name: str, step: int | None) -> None:
    assert step_of(name) == step


def test_objects_and_bytes_are_counted_by_checkpoint() -> None:
    sizes = [("10/a", 5), ("2/a", 1), ("10/b/c", 7), ("10.tmp/a", 100)]
    assert checkpoints_of(sizes) == [StoredCheckpoint(2, 1, 1), StoredCheckpoint(10, 2, 12)]


_RANDOM = random.Random(0)  # tests have the same names in each process


@pytest.mark.parametrize(
    ("content", "readable"),
    [
        (json.dumps({"item_handlers": "x"}).encode(), True),
        (b"\x0c\xdb\x3a\x2a" + _RANDOM.randbytes(100), True),
        (b"\x28\xb5\x2f\xfd" + _RANDOM.randbytes(9000), True),
        (struct.pack("<4000f", *(i / 4000 for i in range(4000))), True),
        (bytes(100_000), True),
        (_RANDOM.randbytes(50), False),
        (_RANDOM.randbytes(4096), False),
        (_RANDOM.randbytes(1 << 20), False),
        (b"", False),
    ],
)
def test_only_random_bytes_say_nothing(content: bytes, readable: bool) -> None:
    assert tells(content) is readable


def test_that_holds_for_random_bytes_of_many_sizes() -> None:
    assert not [n for n in range(4096, 12_000, 97) if tells(os.urandom(n))]
    assert tells(zlib.compress(b"x" * 10_000_000)), "what is compressed evenly has a pattern of its own"


def test_a_folder_is_looked_at_as_it_lies(tmp_path: Path) -> None:
    place = tmp_path / "checkpoints" / "k" / "repeat_0"
    for name, content in {"5/a": os.urandom(5000), "5/b": b"plainly readable text", "5/empty": b""}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    found = stored_in(open_folder(str(tmp_path)), "checkpoints/k/repeat_0")
    assert found.checkpoints == [StoredCheckpoint(5, 3, 5021)]
    assert (found.looked, found.readable) == (2, ["5/b"])
    assert stored_in(open_folder(str(tmp_path)), "checkpoints/none").checkpoints == []


PLAIN = {
    "5/_METADATA": b'{"tree_metadata": {}}',
    "5/state/manifest.ocdbt": b"\x0c\xdb\x3a\x2a" + os.urandom(60),
    "5/state/w/zarr.json": b"{}",
    "5/state/w/.zarray": b"{}",
    "step_00000100/index": b"[[]]",
}
"""Files of Orbax and of axlearn by which whoever reads a checkpoint finds its arrays."""


def laid(folder: Path, files: dict[str, bytes]) -> Stored:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return stored_in(open_folder(str(folder)), "")


def test_who_reads_plaintext_is_led_to_its_arrays_and_who_reads_anything_else_is_not(tmp_path: Path) -> None:
    shown = laid(tmp_path / "plain", {**PLAIN, "5/state/d/x": b"{}"})
    assert list(shown.opened) == list(shown.tried) == sorted(PLAIN)
    hidden = laid(tmp_path / "sealed", {name: b"\xff" + os.urandom(5000) for name in PLAIN})
    assert (list(hidden.tried), hidden.opened, hidden.readable) == (sorted(PLAIN), [], [])


def test_a_checkpoint_is_complete_once_it_says_so(tmp_path: Path) -> None:
    """By the last file that Orbax, or axlearn, writes into its folder."""
    files = dict.fromkeys(
        ("0/commit_success.txt", "5/x", "5/state/commit_success.txt", "step_00000100/index", "index"), b"1"
    )
    assert laid(tmp_path, files).committed == [0, 100]
