"""Whom a fault kills: the process at the other end of the connection, and nobody else on this machine."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cloud import faults


def end(pid: int | None, port: int, other: int | None) -> Any:
    far = SimpleNamespace(port=other) if other is not None else ()
    return SimpleNamespace(pid=pid, laddr=SimpleNamespace(port=port), raddr=far)


@pytest.mark.parametrize("turned", [False, True])
def test_who_has_the_same_port_for_another_server_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, turned: bool
) -> None:
    me = os.getpid()
    there = [
        end(71, 40000, 9999), end(None, 40000, 8080), end(me, 8080, None), end(me, 8080, 40000),
        end(72, 40000, 8080),
    ]  # fmt: skip
    monkeypatch.setattr(faults.psutil, "net_connections", lambda kind: there[::-1] if turned else there)
    assert faults.owner_of(40000) == 72
    assert faults.owner_of(40001) is None
