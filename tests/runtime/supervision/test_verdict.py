"""What is a cause and what is its echo: texts that workers really left behind."""

from __future__ import annotations

import pytest

from runtime.supervision.session import Seat, Witness
from runtime.supervision.verdict import is_consequence, name_workers, of_failure, root

ECHOES = [
    "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that "
    "another task died",
    "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
    "Task 1 heartbeat timeout",
    "TimeoutError: Timed out while waiting for async_write_complete barrier.",
    "XlaRuntimeError: INTERNAL: Gloo AllGather failed: [gloo/pair.cc:446] Connection closed by peer [127.0.0.1]:1",
    "AssertionError: sync_global_devices name mismatch ('a' vs 'b')",
    "UNAVAILABLE: failed to connect to all addresses; last error: connection refused",
]

CAUSES = [
    "ValueError: leaf layers/mlp/w differs: 3 of 1024 elements",
    "OSError: [Errno 28] No space left on device",
    "RESOURCE_EXHAUSTED: Out of memory allocating 68719476736 bytes",
    "KeyError: 'checkpoint'",
    "PERMISSION_DENIED: storage.objects.create",
    "worker 1 was killed by SIGKILL while in save",
    "FileNotFoundError: /data/task/unhealthy.json",
]


@pytest.mark.parametrize("text", ECHOES)
def test_an_echo_is_known(text: str) -> None:
    assert is_consequence(text)


@pytest.mark.parametrize("text", CAUSES)
def test_a_cause_is_not_taken_for_an_echo(text: str) -> None:
    assert not is_consequence(text)


def test_the_first_true_cause_wins() -> None:
    echo, late, later = Witness(0, 1, "echo", 3), Witness(1, 1, "late", 1), Witness(2, 1, "later", 1)
    assert root([echo, late, later]) is late
    assert root([echo]) is echo


@pytest.mark.parametrize(
    ("cause", "workers", "told"),
    [
        ("no space", 2, "worker 1: no space"),
        ("no space", 1, "no space"),
        ("worker 0: no checkpoint at a: b", 2, "worker 0: no checkpoint at a: b"),
    ],
)
def test_who_failed_is_said_once(cause: str, workers: int, told: str) -> None:
    assert of_failure(Seat(1), 0, cause, workers).cause == told


def test_places_are_told_in_words() -> None:
    seat = Seat(0)
    assert seat.place == "before it had joined the others"
    seat.joined = True
    assert seat.place == "before benchmark 1"
    seat.point = 2
    assert seat.place == "between operations"
    seat.operations = {"save": 0.0, "wait": 1.0}
    assert seat.place == "in save and wait"
    seat.point, seat.done = None, True
    assert seat.place == "after its last benchmark"


def test_workers_are_named() -> None:
    assert name_workers([1]) == "worker 1"
    assert name_workers([0, 2]) == "workers 0, 2"
