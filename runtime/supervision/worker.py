"""One worker process: started under a label, listened to, asked for its stacks, and ended with all it started."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import IO

from runtime.contract.job import LEASE_VARIABLE, Job
from runtime.contract.names import STACKS_FILE
from runtime.contract.progress import (
    PROGRESS_FD_VARIABLE,
    Body,
    FromWorker,
    Log,
    Stacks,
    parse,
)
from runtime.contract.redaction import Redaction
from runtime.stacks import STACKS_FILE_VARIABLE
from runtime.supervision import processes
from runtime.supervision.lines import LineSplitter

SESSION_VARIABLE = "SLICEBENCH_SESSION"
"""Label of everything that one session's worker starts."""

_LAST_LINES = 30
_OF_FAULTHANDLER = (
    "  File ",
    "Thread 0x",
    "Current thread 0x",
    "Extension modules:",
    "Fatal Python error:",
    "  <no Python frame>",
)
"""Starts of the lines that Python adds to its end by a signal: the words before them say why."""

_LARGEST_DUMP = 512 << 10
_STACKS_WAIT_S = 2.0
_WAITING = re.compile(r"barrier|sync_global|_sync_fn|process_allgather|broadcast_one_to_all", re.IGNORECASE)


class Worker:
    """The worker of one session. Start it in the main thread: the kernel ties its life to that thread.

    `spare` are the pids of this process's other children. `on_progress` gets what it tells, `on_exit`
    its exit code (negative for a signal) once its progress is read to the end; both come from other
    threads. What it prints goes to `write`. Nothing that it says gets further than here unredacted.
    """

    def __init__(
        self,
        job: Job,
        session: int,
        command: Sequence[str],
        label: str,
        spare: Collection[int],
        write: Callable[..., None],
        on_progress: Callable[[FromWorker], None],
        on_exit: Callable[[int], None],
    ) -> None:
        self.session = session
        self._killed = False
        self._struck = ""
        self._write, self._on_progress, self._on_exit = write, on_progress, on_exit
        self._spare = spare
        self._label = f"{SESSION_VARIABLE}={label}".encode()
        self._stacks = Path(job.scratch, STACKS_FILE)
        self._lines: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        self._last = {"stdout": "", "stderr": ""}
        self._oom_before = processes.out_of_memory_kills()
        progress_out, progress_in = os.pipe()
        environment = self._environment(job, label, progress_in)
        self._redact = Redaction.of_environment(environment)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-m", "runtime.supervision.launch", str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=(progress_in,),
                start_new_session=True,
            )
        finally:
            os.close(progress_in)
        self.pid = self._process.pid
        assert self._process.stdout and self._process.stderr
        self._readers = [
            _reader(self._read_log, self._process.stdout, "stdout"),
            _reader(self._read_log, self._process.stderr, "stderr"),
        ]
        self._progress = _reader(self._read_progress, os.fdopen(progress_out, "rb", buffering=0))
        threading.Thread(target=self._wait, daemon=True).start()

    def last_words(self) -> str:
        """Returns the last line that says something, on stderr if it said anything there, for a cause."""
        return (self._last["stderr"] or self._last["stdout"])[:500]

    def last_lines(self) -> str:
        """Returns the last lines it wrote."""
        return "\n".join(self._lines)

    def out_of_memory(self) -> bool:
        """Says whether the kernel's out-of-memory killer struck since the worker started."""
        return processes.out_of_memory_kills() > self._oom_before

    @property
    def code(self) -> int:
        """The exit code, negative for a signal; of a process that cannot be killed that of SIGKILL."""
        return -signal.SIGKILL if self._process.returncode is None else self._process.returncode

    def how_it_ended(self, code: int) -> str:
        """Returns in words why the process is gone; nothing after a good end."""
        if self._struck:
            return f"disrupted by {self._struck}, as the suite asks for"
        if self._killed and code == -signal.SIGKILL:
            return "ended by the supervisor"
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exited with code {code}" if code else ""

    def dump(self) -> tuple[str, bool]:
        """Asks for the stacks of all threads and puts them into the stream.

        Returns how the process is (stopped, uninterruptible, gone, or nothing), and whether its stacks
        show that it waits for other workers.
        """
        text, answered = self._ask_for_stacks()
        self._write(Stacks(text))
        return "" if answered else processes.state_of(self.pid), bool(_WAITING.search(text))

    def strike(self, number: signal.Signals) -> None:
        """Sends a signal to the worker and its process group, because the suite asks for that."""
        self._struck = number.name
        # Its pid is its own until `end` has collected it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def ask_to_end(self) -> None:
        """Sends SIGTERM to the worker, and lets it go on if it was stopped."""
        if process := processes.look(self.pid):
            processes.kill(process, signal.SIGTERM)
            processes.kill(process, signal.SIGCONT)

    def let_go(self, limit_s: float, hurry: Callable[[], bool]) -> None:
        """Asks it to end, and waits until it has, or nobody has the time any more."""
        self.ask_to_end()
        until = time.monotonic() + limit_s
        while not hurry() and time.monotonic() < until and processes.look(self.pid):
            time.sleep(0.02)

    def end(self, limit_s: float = 10.0) -> str:
        """Kills the worker and everything it started, however it hid. Returns in words what would
        not go in that time, or nothing."""
        self._killed = processes.look(self.pid) is not None
        # Not reaped before this: while it is a zombie nobody else can get its pid.
        left = processes.end_tree(self._label, self.pid, self._spare, limit_s)
        if not left:
            self._process.wait()
        until = time.monotonic() + min(2.0, limit_s)
        for reader in (*self._readers, self._progress):
            # A stranger that was handed the pipe may hold it open.
            reader.join(max(0.0, until - time.monotonic()))
        if left:
            told = ", ".join(f"{process.pid} (state {process.state})" for process in left)
            return f"processes that could not be killed: {told}"
        return ""

    def _environment(self, job: Job, label: str, progress: int) -> dict[str, str]:
        return {
            "PYTHONFAULTHANDLER": "1",
            **os.environ,
            **job.env,
            "PYTHONPATH": job.code,
            "PYTHONUNBUFFERED": "1",
            LEASE_VARIABLE: job.lease_id,
            SESSION_VARIABLE: label,
            PROGRESS_FD_VARIABLE: str(progress),
            STACKS_FILE_VARIABLE: str(self._stacks),
        }

    def _ask_for_stacks(self) -> tuple[str, bool]:
        state = processes.state_of(self.pid)
        if state == processes.GONE:
            return "no stacks: the worker is gone", False
        if state == processes.STOPPED:
            return "no stacks: the worker is stopped (SIGSTOP or a debugger) and cannot answer", False
        if not processes.catches(self.pid, signal.SIGUSR2):
            return "no stacks: the worker had not come so far as to listen for the request", False
        before = _size(self._stacks)
        if process := processes.look(self.pid):
            processes.kill(process, signal.SIGUSR2)
        until = time.monotonic() + _STACKS_WAIT_S
        size, last = before, -1
        while time.monotonic() < until and (size == before or size != last):
            time.sleep(0.1)
            last, size = size, _size(self._stacks)
        if size == before:
            return f"no stacks: the worker did not answer within {_STACKS_WAIT_S:g} s", False
        with self._stacks.open("rb") as file:
            file.seek(before)
            return self._redact(file.read(_LARGEST_DUMP).decode("utf-8", "replace")), True

    def _read_log(self, pipe: IO[bytes], stream: str) -> None:
        splitter = LineSplitter()
        while data := _some(pipe):
            self._log(splitter.feed(data), stream)
        self._log(splitter.close(), stream)

    def _log(self, said: list[str], stream: str) -> None:
        lines = [self._redact(line) for line in said]
        telling = [line for line in lines if line.strip() and not line.startswith(_OF_FAULTHANDLER)]
        self._lines.extend(telling[-_LAST_LINES:])
        if telling:
            self._last[stream] = telling[-1].strip()
        if lines:
            self._write(*(Log(line, stream) for line in lines))

    def _read_progress(self, pipe: IO[bytes]) -> None:
        splitter = LineSplitter()
        while data := _some(pipe):
            for line in splitter.feed(data):
                self._take(line)
        for line in splitter.close():
            self._take(line)

    def _take(self, line: str) -> None:
        try:
            body: Body = parse(line)
            if not isinstance(body, FromWorker):
                raise ValueError("only a supervisor says this")
        except ValueError:
            self._write(
                Log(f"the worker told what cannot be understood: {self._redact(line)[:200]}", "supervisor")
            )
            return
        body = self._redact.record(body)
        self._write(body)
        self._on_progress(body)

    def _wait(self) -> None:
        try:
            gone = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # who ended it was quicker, and knows
            return
        assert gone is not None
        code = gone.si_status if gone.si_code == os.CLD_EXITED else -gone.si_status
        self._progress.join(1.0)  # what it told before it went comes first; a child may hold the pipe open
        for reader in self._readers:
            reader.join(0.3)
        self._on_exit(code)


def _some(pipe: IO[bytes]) -> bytes:
    with contextlib.suppress(OSError, ValueError):
        return os.read(pipe.fileno(), 1 << 16)
    return b""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _reader(target: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread
