"""One container: a local process group, its output stamped into a log, its state as a kubelet tells it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from typing import IO, TYPE_CHECKING, Any

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.environment import Prepared, prepare
from tests.cloud.kubernetes.processes import kill_marked
from tests.cloud.kubernetes.store import Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.logs import ContainerLog
    from tests.cloud.kubernetes.world import World

_LINE = 1 << 20


class Container:
    """A container of a pod."""

    def __init__(self, world: World, pod: Obj, spec: dict[str, Any]) -> None:
        """Takes its specification; nothing runs yet."""
        self._world, self._pod, self.spec = world, pod, spec
        self.name, self.image = spec["name"], spec["image"]
        self._id = pod["metadata"]["uid"][:13]
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: dict[str, str] = {"reason": "ContainerCreating"}
        self._started_at = self._finished_at = ""
        self._last: dict[str, Any] = {}
        self._mark = ""
        self.restarts = 0
        self.exit_code: int | None = None
        self.running = self.started = self.waiting_to_restart = False
        self.up = False
        """Whether it runs and has passed its startup probe, if it has one."""
        self.ended = asyncio.Event()

    @property
    def pid(self) -> int:
        """The process id of what runs, 0 for nothing."""
        return self._process.pid if self._process and self.running else 0

    def start(self) -> None:
        """Starts the process; `Missing` where a Secret or the like is not there, OSError where it cannot start."""
        prepared = prepare(self._world, self._pod, self.spec)
        self._mark = prepared.mark
        log = self._world.logs.open(self._pod["metadata"]["uid"], self.name)
        self.ended = asyncio.Event()
        self._started_at = clock.seconds_text()
        self.exit_code, self.waiting_to_restart = None, False
        try:
            self._process = _spawn(prepared)
        except OSError:
            self._finished_at, self.exit_code = self._started_at, 128
            log.end()
            raise
        self.restarts += self.started
        self.running = self.started = True
        self.up = not self.spec.get("startupProbe")
        task = asyncio.get_running_loop().create_task(self._see_through(self._process, log))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _see_through(self, process: subprocess.Popen[bytes], log: ContainerLog) -> None:
        readers = [asyncio.ensure_future(_read(one, log)) for one in (process.stdout, process.stderr) if one]
        code = await _exit(process)
        # A container ends with its first process; what that left behind ends too.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        kill_marked(self._mark)
        _, open_still = await asyncio.wait(readers, timeout=5)
        for one in open_still:
            one.cancel()
        log.end()
        self._finished_at = clock.seconds_text()
        self.exit_code = code if code >= 0 else 128 - code
        self.running = self.up = False
        self.ended.set()

    def terminate(self) -> None:
        """Asks the first process to end."""
        if self._process and self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        """Kills the whole group."""
        if self._process and self.running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def wait_for(self, reason: str, message: str = "") -> None:
        """Says what the container waits for."""
        self._waiting = {"reason": reason, **({"message": message} if message else {})}

    def ran(self, command: list[str], within_s: float) -> bool:
        """Runs a command in the container, as a probe does; says whether it ended well in its time."""
        prepared = prepare(self._world, self._pod, {**self.spec, "command": command, "args": []})
        try:
            done = subprocess.run(
                prepared.argv,
                env=prepared.env,
                cwd=prepared.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=within_s,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def crash(self) -> None:
        """Says that it is started again, at once."""
        self._last = {"terminated": self._terminated()}

    def back_off(self, message: str) -> None:
        """Says that it is started again, later: how often it was counts only then."""
        self.crash()
        self.waiting_to_restart = True
        self.wait_for("CrashLoopBackOff", message)

    def _terminated(self) -> dict[str, Any]:
        return {
            "exitCode": self.exit_code,
            "reason": "Completed" if self.exit_code == 0 else "Error",
            "startedAt": self._started_at,
            "finishedAt": self._finished_at,
            "containerID": f"standin://{self._id}",
        }

    def status(self) -> dict[str, Any]:
        """Returns its entry in `containerStatuses`."""
        state: dict[str, Any] = {"waiting": dict(self._waiting)}
        if self.running:
            state = {"running": {"startedAt": self._started_at}}
        elif self.exit_code is not None and not self.waiting_to_restart:
            state = {"terminated": self._terminated()}
        return {
            "name": self.name,
            "state": state,
            "lastState": self._last,
            "ready": self.up,
            "restartCount": self.restarts,
            "image": self.image,
            "imageID": f"{self.image.partition('@')[0]}@sha256:0" if self.started else "",
            **({"containerID": f"standin://{self._id}"} if self.started else {}),
            "started": self.up,
        }


def _spawn(prepared: Prepared) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        prepared.argv,
        env=prepared.env,
        cwd=prepared.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )


async def _exit(process: subprocess.Popen[bytes]) -> int:
    """Waits for the process alone; asyncio's own wait would also wait for all that holds its pipes."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    watched = os.pidfd_open(process.pid)
    loop.add_reader(watched, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)
    return process.wait()


async def _read(pipe: IO[bytes], log: ContainerLog) -> None:
    reader = asyncio.StreamReader(limit=_LINE)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        await _copy(reader, log)
    finally:
        transport.close()


async def _copy(stream: asyncio.StreamReader, log: ContainerLog) -> None:
    while True:
        try:
            line = await stream.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                log.write(error.partial)
            return
        except asyncio.LimitOverrunError as error:
            line = await stream.readexactly(error.consumed)
        log.write(line)
