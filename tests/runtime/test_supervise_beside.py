"""What stands beside a worker is up before it, is the worker's only way, and goes however its supervisor goes."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.progress import Log, PointPhase, Started
from runtime.contract.sidecar import SIDECAR_LOG, Sidecar
from tests.runtime.supervised import Crew, Make
from tests.waiting import until

LISTENS = """
import os, socket, subprocess, sys, time
print("secret of mine:", os.environ["MINE"], flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", open(sys.argv[2]).read() if sys.argv[2:] else "", flush=True)
time.sleep(600)
"""


def beside(*words: str, code: str = LISTENS, **more: Any) -> Sidecar:
    fields: dict[str, Any] = {
        "name": "proxy",
        "command": [sys.executable, "-c", code, "{port}", *words],
        "env": {"MINE": "as {store} says"},
        "workload_env": {"TO_PROXY": "http://127.0.0.1:{port}", "NOT_OURS": '{"json": 1}'},
        "ready": "tcp://127.0.0.1:{port}",
    }
    return Sidecar(**fields | more)


def said(crew: Crew) -> list[str]:
    return [body.text for body in crew.bodies(Log) if body.stream == "stdout"]


def sidecar_pid(crew: Crew) -> int:
    [found] = [
        process
        for process in crew.left()
        if LISTENS.encode() in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    ]
    return found.pid


def test_it_is_up_before_the_worker_and_goes_after_it(make: Make) -> None:
    do = {"0.0": "env:TO_PROXY", "0.1": "crash", "0.2": "env:NOT_OURS"}
    job = {
        "sidecar": beside("{files}/k.json", files={"k.json": "the key"}),
        "env": {"STORAGE_EMULATOR_HOST": "http://there"},
    }
    crew = make(do=do, job=job).start()
    assert crew.wait() == [1]
    # A worker that crashes does not take it along: the next session has the same.
    assert [body.first_point for body in crew.bodies(Started)] == [0, 2]
    told = said(crew)
    assert any(line.startswith("TO_PROXY is http://127.0.0.1:") for line in told)
    assert 'NOT_OURS is {"json": 1}' in told
    log = (crew.folder / "run" / "logs" / "sidecar-a1-w0000.log").read_text()
    assert log == "secret of mine: as http://there says\nlistening the key\n"
    assert not list(crew.folder.rglob("k.json")), "a secret file is gone once it was read"
    crew.nothing_left()


def test_when_it_dies_the_run_fails_for_that(make: Make) -> None:
    crew = make(do={"0.1": "hang"}, job={"sidecar": beside()}).start()
    until(lambda: len(crew.bodies(PointPhase)) == 3)
    os.kill(sidecar_pid(crew), signal.SIGKILL)
    assert crew.wait() == [3]
    assert crew.exited().cause == "proxy, which stands beside the worker, was killed by SIGKILL: listening"
    assert crew.points_file()[1] == ("not_run", crew.exited().cause)
    crew.nothing_left()


def test_it_goes_with_a_supervisor_that_is_killed(make: Make) -> None:
    crew = make(do={"0.0": "hang"}, job={"sidecar": beside()}).start()
    until(lambda: len(crew.bodies(PointPhase)) == 1)
    crew.started[0].kill()
    crew.wait()
    crew.nothing_left()


@pytest.mark.parametrize(
    ("sidecar", "more", "cause"),
    [
        (
            beside(code="import sys; sys.exit('no key')"),
            {},
            "proxy, which stands beside the worker, ended with code 1: no key",
        ),
        (
            beside(
                code="import time; time.sleep(600)", ready_s=0.3, ready="http://127.0.0.1:{admin}/healthz"
            ),
            {},
            "proxy was not up within 0.3 s: http://127.0.0.1:",
        ),
        (
            beside(guards=True),
            {"env": {"TENSORSTORE_GCS_BACKEND": "gcs_grpc"}},
            "the worker would go around proxy: TENSORSTORE_GCS_BACKEND=gcs_grpc speaks gRPC",
        ),
    ],
    ids=["ends", "silent", "gone around"],
)
def test_without_it_no_worker_starts(make: Make, sidecar: Sidecar, more: dict[str, Any], cause: str) -> None:
    crew = make(job={"sidecar": sidecar, **more}).start()
    assert crew.wait() == [3]
    assert crew.exited().cause.startswith(cause)
    assert not crew.bodies(Started)
    crew.nothing_left()


def test_it_is_not_taken_for_who_has_its_port(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        crew = make(job={"sidecar": beside(port=port)}).start()
        assert crew.wait() == [3]
    assert crew.exited().cause.startswith(f"port {port} of proxy cannot be had")
    assert not (crew.folder / "w0" / SIDECAR_LOG).exists()


def test_who_is_told_to_stop_while_it_comes_up_stops(make: Make) -> None:
    crew = make(job={"sidecar": beside(code="import time; time.sleep(600)", ready_s=600.0)}).start()
    until(lambda: (crew.folder / "w0" / SIDECAR_LOG).exists())
    crew.started[0].terminate()
    assert crew.wait() == [130]
    crew.nothing_left()
