"""Samples of the training benchmark become a start of an acceptance."""

from __future__ import annotations

from tasks.history.acceptance import Start
from tasks.history.acceptance_results import start_of
from tasks.history.measurement import Measurement
from tests.tasks.history.test_pair import measured


def of(operation: str, metric: str, *values: float) -> Measurement:
    return measured(values, metric, operation=operation)


def test_what_is_taken() -> None:
    found = start_of(
        [
            of("train_step", "time_s", 0.1, 0.1),
            of("train_step", "loss", 4.0, 3.0),
            of("train_step", "step", 5, 7),
            of("train_step_meanwhile", "loss", 3.5),
            of("train_step_meanwhile", "step", 6),
            of("save", "time_s", 0.1, 0.2),
            of("save", "complete_after_s", 1.0, 2.0),
            of("restore", "time_s", 8.0),
            of("restore_after_restart", "time_s", 9.0),
            of("restore_after_restart", "resumed_from_step", 4),
        ],
        newest=4,
    )
    assert found == Start((1.0, 2.0), (9.0, 8.0), {5: 4.0, 6: 3.5, 7: 3.0}, newest=4, resumed=4)
    assert list(found.losses) == [5, 6, 7]


def test_what_is_not_there() -> None:
    assert start_of([]) == Start()
    assert start_of([of("save", "time_s", 1.0), of("recovery", "resumed_from_step", 3)]) == Start(
        (1.0,), resumed=3
    )
    assert start_of([of("train_step", "loss", 1.0)]) == Start(), "nobody knows which step that was"
