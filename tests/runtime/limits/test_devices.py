"""Transfers to devices and back: how much goes each way, sized to what is free; by devices that only count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import pytest

from runtime.contract.limits import DEVICE_TO_HOST, HOST_TO_DEVICE
from runtime.limits import devices

MIB = 1 << 20


@dataclass
class Device:
    """An accelerator with so much memory."""

    limit: int = 1024 * MIB
    used: int = 0
    platform: str = "gpu"
    got: list[int] = field(default_factory=list)

    def memory_stats(self) -> dict[str, int]:
        return {"bytes_limit": self.limit, "bytes_in_use": self.used}


class Array:
    """What lies on a device; it can be deleted once."""

    def __init__(self) -> None:
        self.alive = True

    def delete(self) -> None:
        assert self.alive
        self.alive = False


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    found = [Device(), Device()]

    def put(parts: Sequence[Any], places: Sequence[Device]) -> list[Array]:
        for part, place in zip(parts, places, strict=True):
            place.got.append(part.nbytes)
        return [Array() for _ in places]

    monkeypatch.setattr(jax, "local_devices", lambda: found)
    monkeypatch.setattr(jax, "device_put", put)
    monkeypatch.setattr(jax, "device_get", lambda arrays: arrays)
    monkeypatch.setattr(jax, "block_until_ready", lambda arrays: arrays)
    return found


def test_all_devices_move_at_once(two: list[Device]) -> None:
    met: list[int] = []
    found = devices.transfers(1 << 40, lambda: met.append(1))
    for limit in (found[HOST_TO_DEVICE], found[DEVICE_TO_HOST]):
        assert (limit.size_bytes, limit.how, len(limit.values)) == (128 * MIB, "2 devices at once", 3)
    assert two[0].got == two[1].got == [64 * MIB] * 4, "once to warm up, and three times"
    assert met == [1]


@pytest.mark.parametrize(
    ("free", "used", "each"), [(32 * 16 * MIB, 0, 16 * MIB), (1 << 40, 1024 - 64, 8 * MIB)]
)
def test_no_more_moves_than_host_and_device_have_room_for(
    two: list[Device], free: int, used: int, each: int
) -> None:
    two[1].used = used * MIB
    assert devices.transfers(free, lambda: None)[HOST_TO_DEVICE].size_bytes == 2 * each


def test_a_full_device_is_left_alone(two: list[Device]) -> None:
    two[1].used = two[1].limit
    assert "too little memory" in devices.transfers(1 << 40, lambda: None)[DEVICE_TO_HOST].skipped
    assert not two[0].got


def test_a_device_that_fails_costs_no_run(two: list[Device], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(arrays: object) -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED:\nout of memory")

    monkeypatch.setattr(jax, "device_get", fails)
    found = devices.transfers(1 << 40, lambda: None)
    assert found[HOST_TO_DEVICE].skipped == "it failed: RESOURCE_EXHAUSTED: out of memory"


def test_devices_in_the_hosts_own_memory_have_no_limit(two: list[Device]) -> None:
    two[0].platform = "cpu"
    found = devices.transfers(1 << 40, lambda: None)
    assert {limit.skipped for limit in found.values()} == {"the devices have the host's own memory"}
