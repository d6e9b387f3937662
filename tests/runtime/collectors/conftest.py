"""A way to measure one block with one collector, and to look at what it said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from runtime.measure import Collector, Operation

Measured = dict[str, float]
Measure = Callable[[Collector], AbstractContextManager[Measured]]


@pytest.fixture
def measuring() -> Measure:
    """Returns a context manager whose dict holds each metric's value once the block is over."""

    @contextlib.contextmanager
    def measure(collector: Collector) -> Iterator[Measured]:
        told: Measured = {}
        probe = collector.start(Operation("block"))
        yield told
        probe.stop()
        told.update({value.metric: value.value for value in probe.values()})

    return measure
