"""Runs another program: in a clean environment, within a time, and not for longer than we live ourselves."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import InfrastructureError
from tasks.cloud.calls import calling

# The program runs under a watcher in a session of its own. The watcher reads a pipe that only we hold: its end means
# that we are gone, whatever killed us, and then the program goes with everything that it started.
# Python's own modules for processes and signals would take it three times as long to start, for each of many calls of
# git: 9 is SIGKILL, and 13 and 25 are SIGPIPE and SIGXFSZ, which Python ignores and other programs count on.
_WATCHER = """
import os, sys
if (watch := os.fork()) == 0:
    os.closerange(1, 3)
    os.read(0, 1)
    os.killpg(0, 9)
nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
program = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=nothing, setsigdef=[13, 25])
code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
os.kill(watch, 9)
os.waitpid(watch, 0)
os._exit(code if code >= 0 else 128 - code)
"""
_PASSED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip


class TimedOut(InfrastructureError):
    """A program did not end in time, and was killed."""


@dataclass(frozen=True)
class Finished:
    """How a program ended. `output` is stdout as bytes, `errors` stderr as text."""

    code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        """Stdout as text."""
        return self.output.decode(errors="replace")


def clean_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the few variables any program may see: no tokens or credentials, nothing of Python or git."""
    return {name: environ[name] for name in _PASSED if name in environ}


def run_command(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout_s: float,
    cwd: Path | None = None,
    stdout: int | None = None,
    told: str | None = None,
) -> Finished:
    """Runs a program to its end; a non-zero exit is no error here.

    `stdout` is a file descriptor that takes the output instead. `told` is what is told of the call instead of its
    arguments, where these may hold secrets. Raises InfrastructureError when the program
    cannot be started or does not end in time: then it and everything it started is killed.
    """
    if shutil.which(argv[0], path=env.get("PATH")) is None:
        raise InfrastructureError(f"{argv[0]} is not installed here; install it, or add its folder to PATH")
    words = shlex.join(argv[1:]) if told is None else told
    with calling(Path(argv[0]).name, words, timeout_s) as call:
        finished = _run_to_its_end(argv, env, timeout_s, cwd, stdout)
        call.result = f"code {finished.code}"
    return finished


def _run_to_its_end(
    argv: Sequence[str], env: Mapping[str, str], timeout_s: float, cwd: Path | None, stdout: int | None
) -> Finished:
    watched, ours = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCHER, *argv],
            env=dict(env),
            cwd=cwd,
            stdin=watched,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        os.close(ours)
        raise InfrastructureError(f"{argv[0]} cannot be started: {error.strerror}") from error
    finally:
        os.close(watched)
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise TimedOut(f"{' '.join(argv[:2])} did not end within {timeout_s:.0f} s") from error
    finally:
        # On every way out, Ctrl-C too: whatever it started is of no more use.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)
    return Finished(process.returncode, output or b"", errors.decode(errors="replace"))
