"""What supervisors write down of points that take turns: a turn that never came is no result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.job import Job
from runtime.contract.names import JOURNAL_FILE
from runtime.contract.results import PointResult
from runtime.results_io import Journal
from runtime.supervision.journal import Ruling, recorded, write_down

WAITS = PointResult(
    "r",
    1,
    0,
    0,
    "b",
    "key",
    "x.B",
    "native",
    "not_run",
    "it was stopped after 2 of 6 repeats",
    2,
    paused=True,
)


@pytest.mark.parametrize(
    ("known", "ruling", "stands"),
    [
        (WAITS, Ruling("failed", "it crashed", 0), ("failed", "it crashed")),
        (WAITS, Ruling("not_run", "told to stop"), ("not_run", "it was stopped after 2 of 6 repeats")),
        (replace(WAITS, status="passed", cause="", paused=False), Ruling("failed", "x"), ("passed", "")),
    ],
)
def test_a_ruling_stands_where_the_worker_had_not_come_to_an_end(
    tmp_path: Path, known: PointResult, ruling: Ruling, stands: tuple[str, str]
) -> None:
    job = Job("r", "l", 1, 0, 1, 0, "h:1", "t", "s", "c", "o", str(tmp_path), "python", "cpu")
    with Journal(tmp_path / JOURNAL_FILE) as journal:
        journal.append(known)
    write_down(job, {0: ruling}, {})
    found = recorded(job)[0]
    assert (found.status, found.cause, found.repeats_done) == (*stands, 2)
    assert found.paused == (stands[1] == WAITS.cause)
