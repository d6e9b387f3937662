"""Writers and compactors of one history are killed at work, again and again: each written row is there once."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.cloud.storage import open_folder
from tasks.history.dataset.compaction import compact
from tasks.history.dataset.store import Dataset

ROOT = Path(__file__).parents[2]
ROUNDS, RUNS = 5, 400

WRITER = """
import sys
from tasks.cloud.storage import open_folder
from tasks.history.dataset.store import Dataset
from tests.tasks.history.dataset.making import row

uri, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for n in range(first, last):
    rows = [row(n % 60, run_id=f"run-{n}", operation=operation) for operation in ("save", "restore")]
    Dataset(open_folder(uri)).append(rows)
    print(n, flush=True)
"""
COMPACTOR = """
import sys
from tasks.cloud.storage import open_folder
from tasks.history.dataset.compaction import compact
from tasks.history.dataset.store import Dataset

while True:
    compact(Dataset(open_folder(sys.argv[1])))
    print("compacted", flush=True)
"""


def started(code: str, *arguments: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def killed_after(process: subprocess.Popen[str], lines: int) -> list[str]:
    """Kills a process once it has told so many lines; returns all that it told."""
    assert process.stdout is not None
    told = [line for _, line in zip(range(lines), process.stdout, strict=False)]
    process.kill()
    told += process.stdout.readlines()
    process.wait()
    return [line.strip() for line in told]


@pytest.mark.chaos
@pytest.mark.parametrize("where", ["local", "gs"])
def test_what_was_written_is_there_once_whoever_is_killed(
    tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    uri = (
        str(tmp_path / "history") if where == "local" else f"{request.getfixturevalue('gcs_bucket')}/history"
    )
    draw = random.Random(7)
    written: set[int] = set()
    for one in range(ROUNDS):
        # The second half of what one of them writes is what the other writes, too.
        begin = one * RUNS
        writers = [started(WRITER, uri, begin, begin + RUNS), started(WRITER, uri, begin + 5, begin + RUNS)]
        compactors = [started(COMPACTOR, uri) for _ in range(2)]
        for process in draw.sample([*writers, *compactors], 4):
            told = killed_after(process, draw.randint(2, 12))
            written |= {int(line) for line in told if line.isdecimal()}
        found = Dataset(open_folder(uri)).read()
        rows = [(row["run_id"], row["operation"]) for row in found.table().to_pylist()]
        assert found.troubles == [] and len(rows) == len(set(rows))
        assert {(f"run-{n}", what) for n in written for what in ("save", "restore")} <= set(rows)
    before = Dataset(open_folder(uri)).read().table().to_pylist()
    done = compact(Dataset(open_folder(uri)))
    assert Dataset(open_folder(uri)).read().table().to_pylist() == before
    assert done.after == len(list(open_folder(uri).names("rows"))) <= 3
