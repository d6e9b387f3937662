"""The sidecar of one supervisor: started before its worker, asked whether it is up, ended with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from runtime.contract.braces import filled
from runtime.contract.errors import InfrastructureError
from runtime.contract.job import LEASE_VARIABLE, Job
from runtime.contract.redaction import Redaction
from runtime.contract.sidecar import (
    AT_VARIABLE,
    CERTIFICATES_VARIABLE,
    RECORDS_FOLDER,
    RECORDS_VARIABLE,
    SIDECAR_LOG,
    Sidecar,
    store_of,
    straight,
    way_around,
)
from runtime.supervision import processes
from runtime.supervision.worker import SESSION_VARIABLE

LOOPBACK = "127.0.0.1"
_ANSWER_S = 3.0
_END_S = 2.0
_TAIL = 4096


class Beside:
    """What stands beside the worker, if the job asks for anything; else it is up at once, and never goes.

    Use it in the main thread: the kernel ties the sidecar's life to that thread, as it does the worker's.
    """

    def __init__(self, job: Job, label: str, on_exit: Callable[[str], None]) -> None:
        """`on_exit` gets why the sidecar is gone, unless `end` ended it; from another thread."""
        self._job, self._sidecar, self._on_exit = job, job.sidecar or Sidecar(""), on_exit
        self.label = f"beside-{label}"  # none of the workers' labels begins like that
        self._given = {**os.environ, **job.env}
        self._log = Path(job.scratch, SIDECAR_LOG)
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = self._up = False
        self._until: float | None = None
        self._secret: Path | None = None
        self._known: dict[str, str | int] = {
            "python": job.python,
            # Hosts are shared by users; whose programs connect, Linux alone tells.
            "lend": "own" if Path("/proc/net/tcp").exists() else "all",
            "held": "own",
            "store": store_of(self._given),
            "certificates": str(Path(job.scratch, "certificates")),
            "address": LOOPBACK,
        }
        if AT_VARIABLE in os.environ:  # a kubelet has started it
            ports = [at.rpartition(":")[2] for at in os.environ[AT_VARIABLE].split(",")]
            self._known |= dict(zip(("port", "forward"), ports, strict=False))
            self._known["certificates"] = os.environ.get(CERTIFICATES_VARIABLE, "")

    @property
    def pids(self) -> tuple[int, ...]:
        """The process that is not the worker's, where there is one."""
        return (self._process.pid,) if self._process else ()

    @property
    def worker_env(self) -> Mapping[str, str]:
        """The variables that the worker gets from it."""
        if self._job.sidecar is None:
            return {}
        records = {RECORDS_VARIABLE: str(Path(self._job.scratch, RECORDS_FOLDER))}
        more = self._filled(self._sidecar.workload_env)
        return {**records, **more, **straight({**self._given, **more})}

    def is_up(self) -> bool:
        """Starts it at first, and says whether it answers.

        Raises InfrastructureError when it cannot be started, does not answer in its time, or would be gone around.
        """
        if self._up:
            return True
        if self._until is None:
            self._until = time.monotonic() + self._sidecar.ready_s
            self._start()
        where = filled(self._sidecar.ready, self._known)
        if gone := self.gone():
            raise InfrastructureError(gone)
        self._up = not where or _answers(where)
        if self._up:
            self._hide()
        elif time.monotonic() > self._until:
            raise InfrastructureError(
                f"{self._sidecar.name} was not up within {self._sidecar.ready_s:g} s: {where} does not answer"
                + self._last_words()
            )
        return self._up

    def gone(self) -> str:
        """Returns why it is gone; empty while it runs."""
        process = self._process
        if process is None or processes.look(process.pid) is not None:
            return ""
        code = process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"{self._sidecar.name}, which stands beside the worker, {how}{self._last_words()}"

    def end(self) -> None:
        """Asks it to end, then kills it with all it started."""
        self._ending = True
        self._hide()
        process, self._process = self._process, None
        if process is None:
            return
        if found := processes.look(process.pid):
            processes.kill(found, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        if not processes.end_tree(f"{SESSION_VARIABLE}={self.label}".encode(), process.pid):
            process.wait()

    def _start(self) -> None:
        job, sidecar = self._job, self._sidecar
        if sidecar.guards and (why := way_around(self._given)):
            raise InfrastructureError(f"the worker would go around {sidecar.name}: {why}")
        if not sidecar.command:
            return
        Path(str(self._known["certificates"])).mkdir(parents=True, exist_ok=True)
        self._known |= dict(zip(("port", "admin", "forward"), _free_ports(sidecar), strict=True))
        self._lay_out()
        environment = {
            **self._given,
            **self._filled(sidecar.env),
            "PYTHONPATH": job.code,
            LEASE_VARIABLE: job.lease_id,
            SESSION_VARIABLE: self.label,
        }
        command = [filled(word, self._known) for word in sidecar.command]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-m", "runtime.supervision.launch", str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        threading.Thread(target=self._wait, args=(self._process,), daemon=True).start()

    def _lay_out(self) -> None:
        """Writes the secret files where the job's own file lies: what is left there goes with the lease."""
        job, files = self._job, self._sidecar.files
        if not files:
            return
        beside = Path(job.renewal_file).parent if job.renewal_file else Path(job.scratch)
        self._secret = Path(tempfile.mkdtemp(prefix="sidecar-", dir=beside))
        self._known["files"] = str(self._secret)
        for name, content in files.items():
            file = os.open(self._secret / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as stream:
                stream.write(content)

    def _hide(self) -> None:
        if self._secret is not None:
            shutil.rmtree(self._secret, ignore_errors=True)

    def _filled(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {name: filled(value, self._known) for name, value in variables.items()}

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ChildProcessError):  # who ended it was quicker
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        if not self._ending and (why := self.gone()):
            self._on_exit(why)

    def _last_words(self) -> str:
        """Returns the last line that it wrote, to follow a sentence."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {Redaction.of_environment(self._given)(last)[:500]}" if last else ""


def _free_ports(sidecar: Sidecar) -> list[int]:
    """Returns where it may listen. Raises InfrastructureError where its own port is somebody else's."""
    with socket.socket() as one, socket.socket() as other, socket.socket() as third:
        if sidecar.port is not None:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((LOOPBACK, sidecar.port or 0))
        except OSError as error:
            raise InfrastructureError(
                f"port {sidecar.port} of {sidecar.name} cannot be had: {error.strerror}; end what listens there"
            ) from error
        other.bind((LOOPBACK, 0))
        third.bind((LOOPBACK, 0))
        return [bound.getsockname()[1] for bound in (one, other, third)]


def _answers(where: str) -> bool:
    """Says whether what is to be up is."""
    place = urlsplit(where)
    if place.scheme == "file":
        return Path(place.path).exists() and Path(place.path).stat().st_size > 0
    try:
        with socket.create_connection((place.hostname or LOOPBACK, place.port or 80), _ANSWER_S) as client:
            if place.scheme == "tcp":
                return True
            client.settimeout(_ANSWER_S)
            client.sendall(f"GET {place.path or '/'} HTTP/1.0\r\nHost: {place.netloc}\r\n\r\n".encode())
            return client.makefile("rb").readline(200).split()[1:2] == [b"200"]
    except OSError:
        return False
