"""The bench of a thousand pods, with a hundred, whose answers begin with their first line only: each comes once."""

from __future__ import annotations

from tests.bench.bench_follow import thousand


def test_a_hundred_pods_are_followed_at_once_over_tls() -> None:
    keeps_up, memory = thousand(100, 1_000.0, 0.5)
    assert keeps_up.ours > 0
    assert memory.holds
