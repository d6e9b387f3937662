"""How records of a stream are told to people: benchmarks and repeats are counted from 1."""

from __future__ import annotations

import pytest

from runtime.contract import progress
from tasks.targets.streams import event_of
from tasks.targets.types import LogLine


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (progress.Step("begun", 1, 3, 0, 7), "step 7 of benchmark 2 of 3, repeat 1, is being saved"),
        (progress.Step("resumed", 0, 3, 1, 6), "it goes on from step 6 of benchmark 1 of 3, repeat 2"),
        (progress.Started(2, 77, 1), "session 2 started at benchmark 2 (pid 77)"),
        (progress.Done(1, 1), "the worker is through 1 benchmark, 1 failed"),
        (
            progress.Deadline("point", 1, 2.0, "save", 0, (1,)),
            "deadline of 2 s for benchmark passed in save; held up by worker 1",
        ),
    ],
)
def test_records_are_told_in_words(body: progress.Body, told: str) -> None:
    event = event_of(0, progress.Record(5, 1.0, body))
    assert event == LogLine(0, 5, f"supervisor: {told}")
