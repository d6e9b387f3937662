"""A real Prefect server for tests of flows: one for all of them, for its start costs ten seconds of a core."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.fake_gcs import free_port, wait_for_http

PATIENCE_S = 400.0
"""For its start, which takes minutes where others use the machine."""

ITS_FILES = tuple(f"tests/flows/test_{name}.py" for name in ("environment", "pipeline", "reap"))
"""Whose tests use it: of several processes of pytest-xdist one runs them all."""


@pytest.fixture(scope="session")
def prefect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of a server without UI and telemetry, on a database of its own."""
    home, port = tmp_path_factory.mktemp("prefect"), free_port()
    server = _start(home, port)
    try:
        wait_for_http(server, port, "/api/health", home / "log", PATIENCE_S)
        yield f"http://127.0.0.1:{port}/api"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def prefect(prefect_url: str) -> Iterator[None]:
    """Flows called in this process are told to the server, what they log included."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings(updates={PREFECT_API_URL: prefect_url}):
        yield
        APILogWorker.instance().drain()
        EventsWorker.drain_all()


def _start(home: Path, port: int) -> subprocess.Popen[bytes]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    settings = {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home / 'prefect.db'}",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_UI_ENABLED": "false",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
    }
    words = ["prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", str(port)]
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "uvicorn",
                "--factory",
                "--lifespan",
                "on",
                "--log-level",
                "error",
                *words,
            ],
            env={**environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
