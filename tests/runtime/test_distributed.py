"""Workers that cannot meet are an error with the cause, never N programs of one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from runtime import distributed
from runtime.contract.errors import ExitCode, InfrastructureError
from runtime.settings import Membership
from tests.waiting import PATIENCE_S

ALONE = Membership(worker=0, workers=1, coordinator=None, heartbeat_s=10, init_deadline_s=10)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def test_one_worker_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("one worker must not initialise jax.distributed")

    monkeypatch.setattr(jax.distributed, "initialize", refused)
    monkeypatch.setattr(jax.distributed, "shutdown", refused)
    distributed.join(ALONE)
    distributed.expect_everybody(ALONE)
    distributed.leave(ALONE)


def test_another_number_of_workers_is_refused() -> None:
    with pytest.raises(InfrastructureError, match="1 workers where 2"):
        distributed.expect_everybody(Membership(0, 2, "127.0.0.1:1", 10, 10))


def test_one_worker_agrees_with_itself() -> None:
    assert distributed.agree(None) is None
    assert distributed.agree("no data") == "no data"


@pytest.mark.parametrize(
    ("coordinator", "bound"),
    [
        ("127.0.0.1:5", "127.0.0.1:5"),
        ("localhost:5", "127.0.0.1:5"),
        ("[::1]:5", "[::1]:5"),
        ("10.0.0.2:5", None),
        ("worker-0.svc:5", None),
    ],
)
def test_a_local_coordinator_listens_on_loopback_only(coordinator: str, bound: str | None) -> None:
    assert distributed._bind_address(coordinator) == bound


def test_workers_do_not_talk_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "other")
    monkeypatch.setenv("NO_PROXY", "")  # so that it is put back as well, where it was not set
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    distributed.keep_proxies_out_of("10.0.0.2:5")
    assert os.environ["no_proxy"] == "other,10.0.0.2"
    assert os.environ["NO_PROXY"] == "10.0.0.2"


@pytest.mark.parametrize("worker", [0, 1])
def test_a_worker_without_siblings_ends_within_the_deadline(worker: int) -> None:
    """In a process of its own: a failed start cannot be taken back."""
    program = (
        "import sys\nfrom runtime.settings import Membership\nfrom runtime import distributed\n"
        f"distributed.join(Membership({worker}, 2, '127.0.0.1:{free_port()}', 10, 2))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,  # JAX's own limit is five minutes
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        check=False,
    )
    assert "could not join the others" in ended.stderr, ended.stderr[-2000:]
    assert f"worker {worker} of 2" in ended.stderr
    assert ended.returncode == ExitCode.INFRASTRUCTURE
