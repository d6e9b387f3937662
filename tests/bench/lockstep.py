"""Two processes that do the same work take turns: while one does its part, the other is stopped.

Both then meet the same weather within a second or two, and neither pays for starting more than once.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, Any

import psutil

Gate = Callable[[str], bool]
"""Whether a line says that a turn is over. It must come well before the next thing that is measured."""


class Player:
    """A process that runs only within `turn` and `finish`. Use it as a context: leaving it ends the process."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        gate: Gate,
        *,
        pipe_variable: str | None = None,
    ) -> None:
        """Starts it, and stops it at once. Gate lines come by stderr, or by a pipe that `pipe_variable` names."""
        self._gate = gate
        self._process: subprocess.Popen[Any]
        self.lines: list[str] = []
        if pipe_variable is None:
            self._process = subprocess.Popen(
                command, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            assert self._process.stderr is not None
            self._said: IO[str] = self._process.stderr
        else:
            reader, writer = os.pipe()
            self._process = subprocess.Popen(
                command,
                env={**environment, pipe_variable: str(writer)},
                pass_fds=[writer],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            os.close(writer)
            self._said = os.fdopen(reader)
        self._signal(signal.SIGSTOP)

    def __enter__(self) -> Player:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()

    def turn(self) -> None:
        """Lets it run until its next gate. Raises RuntimeError when it ends before."""
        self._signal(signal.SIGCONT)
        for line in self._said:
            self.lines.append(line)
            if self._gate(line):
                self._signal(signal.SIGSTOP)
                return
        raise RuntimeError(f"it ended within a turn: {''.join(self.lines[-20:])}")

    def finish(self) -> None:
        """Lets it run to its end. Raises RuntimeError when that is not a good one."""
        self._signal(signal.SIGCONT)
        self.lines += self._said
        if code := self._process.wait():
            raise RuntimeError(f"it ended with code {code}: {''.join(self.lines[-20:])}")

    def status(self) -> str:
        """Returns what the kernel says of it, in psutil's words."""
        return str(psutil.Process(self._process.pid).status())

    def _signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)


def alternate(one: Player, other: Player, turns: int, *, first: int = 0) -> None:
    """Lets both play `turns` turns each, in the order one, other, other, one, …, and then to their ends.

    An odd `first` begins with the other one.
    """
    for number in range(turns):
        order = (one, other) if (number + first) % 2 == 0 else (other, one)
        for player in order:
            player.turn()
    one.finish()
    other.finish()
