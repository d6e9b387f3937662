"""Whom a fault kills: the process at the other end of the connection, and nobody else on this machine."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cloud import faults
from tests.cloud.container.serve import main


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


def test_what_goes_wrong_is_said_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """With --fault and --set of `python -m tests.cloud container`, whose --help says which there are."""
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    told = capsys.readouterr().out
    assert all(
        one in told for one in ("CreateNodePool", "kill_after", "stockouts = []", "etag_conflicts = 0")
    )
    for wrong in (["--fault", '{"method": "CreateNodePool"}'], ["--set", "stockout=[]"], ["--set", "slow=x"]):
        with pytest.raises(SystemExit, match="2"):
            main(["--state", "/nowhere", *wrong])
        assert wrong[1] in capsys.readouterr().err
