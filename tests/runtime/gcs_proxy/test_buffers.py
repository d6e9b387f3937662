"""How the memory of a process is shared out among its transfers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from runtime.gcs_proxy.buffers import LARGE, SMALL, Budget
from runtime.gcs_proxy.format import SEGMENT_BYTES
from runtime.gcs_proxy.wire import Wire


@pytest.fixture
def wire() -> Iterator[Wire]:
    with socket.socket() as sock:
        yield Wire(sock)


def test_one_alone_has_much_and_no_more_than_it_wants(wire: Wire) -> None:
    budget = Budget(40 << 20)
    for wanted, count in ((1, 1), (LARGE - 1, LARGE - 1), (LARGE, LARGE), (1000, LARGE)):
        with budget.take(wire, wanted, buffers=2) as loan:
            assert len(loan.buffer) == len(loan.beside) == count * SEGMENT_BYTES
            assert budget.used == loan.size == 2 * count * SEGMENT_BYTES
        with budget.take(wire, wanted) as loan:
            assert (len(loan.buffer), len(loan.beside)) == (count * SEGMENT_BYTES, 0)
    assert not budget.used


def test_the_more_come_the_less_each_has_and_there_is_room_for_many(wire: Wire) -> None:
    budget, total = Budget(40 << 20), 40 << 20
    least = 2 * SMALL * SEGMENT_BYTES
    with ExitStack() as stack:
        sizes = list[int]()
        while budget.used + least <= total:
            sizes.append(stack.enter_context(budget.take(wire, LARGE, buffers=2)).size)
        assert sizes == sorted(sizes, reverse=True) and sizes[-1] == least
        assert sum(sizes) == budget.used <= total
        assert len(sizes) >= 48 and sizes[2] >= 2 << 20
    assert not budget.used


def test_what_is_given_back_takes_no_memory_though_somebody_holds_it_yet(wire: Wire) -> None:
    """An error holds the buffers of what it broke off, until it is dealt with: the next one has its own by then."""
    budget = Budget(4 << 20)
    with budget.take(wire, 4, buffers=2) as loan:
        loan.buffer[:] = b"x" * len(loan.buffer)
        held = loan.buffer
    assert not budget.used and not any(held), "its pages are gone"
