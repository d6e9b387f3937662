"""A Prefect server for one run: as Prefect starts without an API URL, but sooner, and safe from Ctrl-C.

Prefect's own would start after two seconds of imports, so that both wait for each other, and in the terminal's
process group, so that a Ctrl-C ends it before the run has given everything back.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from flows.serving.settings import (
    HOST,
    START_S,
    auth_settings,
    free_port,
    new_auth_string,
    own_home_settings,
    without_prefect,
)
from runtime.contract.errors import InfrastructureError
from tasks.config.home import home

STOP_S = 5.0

LONG_S = 30.0
"""After which somebody who waits for Prefect wants to know that it is still that."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Ephemeral:
    """A server that was started; `settings`: its clients' environment; `log`: what it prints."""

    settings: dict[str, str]
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until_ready(self, tell: Callable[[str], None]) -> None:
        """Returns when it answers, having told that it takes long where it does. Raises InfrastructureError when it
        does not, or has ended.
        """
        slow = threading.Timer(
            LONG_S, tell, [f"Prefect is still starting: a busy machine takes its time ({self.log})"]
        )
        slow.daemon = True
        slow.start()
        try:
            wait_until_ready(self.settings, ended=lambda: self.ended)
        finally:
            slow.cancel()

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self.process.poll() is not None

    def what_happened(self, error: Exception) -> str:
        """Says why a call to it gave an error."""
        if self.ended:
            return f"Prefect's server for this run has ended (see {self.log})"
        return f"Prefect's server for this run does not answer ({type(error).__name__}: {error})"


@contextlib.contextmanager
def ephemeral_server() -> Iterator[Ephemeral]:
    """Starts a server; does not wait for it, for there are imports to do meanwhile."""
    folder = home() / "prefect" / "ephemeral"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    port = free_port()
    settings = own_home_settings(folder) | auth_settings(new_auth_string())
    settings["PREFECT_API_URL"] = f"http://{HOST}:{port}/api"
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "uvicorn",
                "--factory",
                "prefect.server.api.server:create_app",
                "--host",
                HOST,
                "--port",
                str(port),
                "--log-level",
                "error",
                "--lifespan",
                "on",
            ],
            # The last three are what Prefect's own temporary server sets: no UI, schedules, late-run service.
            env=without_prefect()
            | settings
            | {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    try:
        yield Ephemeral(settings, process, log)
    except InfrastructureError as error:
        if process.poll() is not None:
            raise InfrastructureError(f"Prefect's server has ended; see {log}:\n{tail_of(log)}") from error
        raise
    finally:
        _stop(process)


def wait_until_ready(
    settings: Mapping[str, str], timeout_s: float = START_S, ended: Callable[[], bool] = lambda: False
) -> None:
    """Returns when the server answers. Raises InfrastructureError when it does not, or once it has `ended`."""
    deadline = time.monotonic() + timeout_s
    with httpx.Client(trust_env=False, timeout=5.0) as http:
        while time.monotonic() < deadline and not ended():
            with contextlib.suppress(httpx.HTTPError):
                if http.get(f"{settings['PREFECT_API_URL']}/health").is_success:
                    return
            time.sleep(0.1)
    raise InfrastructureError(
        f"Prefect's server at {settings['PREFECT_API_URL']} did not start in {timeout_s:.0f} s"
    )


def tail_of(log: Path, lines: int = 15) -> str:
    """Returns the last lines of a log file."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"({log} cannot be read: {error})"


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _die_with_parent() -> None:
    """Runs in the child: the server of a command that was killed serves nobody."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
