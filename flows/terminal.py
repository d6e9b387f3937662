"""What of a run's many lines a person at a terminal sees: its milestones. All of them are in run.log and the logs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from tasks.history.quantities import printable

_WORKER = re.compile(r"\[\d+\] (?P<text>.*)")
_JUDGED = re.compile(r"supervisor: (?P<text>benchmark \d+ of \d+( \(.+?\))? (failed|was not run): .*)")
_ATTEMPT = re.compile(r"(?P<end>attempt \d+ \w+): .*")
_ENDED = re.compile(r"worker \d+ ended with code .*")
_AT_THE_END = ("verdict: ", "report: ")
"""Stages say these for the log; the command tells them once, below the table."""


class Terminal:
    """Prints the lines that a run says to stderr: its milestones, with `verbose` all but what the command tells itself.

    Of what workers say, only what their supervisors judged of a point is shown, once, and nothing from when the run
    is being stopped: then workers fail because they are. How an attempt ended is told by its cause, at the end of the
    run: each supervisor ends with that one too, or with what it saw of it.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose
        self._stopping = False
        self._told: set[str] = set()

    def __call__(self, text: str) -> None:
        """Takes one line, or several with line feeds between, of what the run says."""
        for line in text.splitlines():
            if line.startswith(_AT_THE_END):
                continue
            shown = line if self._verbose else self._milestone(line)
            if shown is not None:
                self.tell(shown)

    def tell(self, text: str) -> None:
        """Prints a line in any case."""
        self._told.add(text)
        print(printable(text), file=sys.stderr, flush=True)

    def stopping(self) -> None:
        """From now on the run is being stopped."""
        self._stopping = True

    def causes(self, causes: Iterable[str], shown: Iterable[str] = ()) -> None:
        """Prints causes, a line each, but those that were told already or that hold one of `shown`."""
        known = [one for one in shown if one]
        for cause in causes:
            lines = [line for line in cause.splitlines() if line not in self._told]
            if lines and not any(one in cause for one in known):
                for line in lines:
                    self.tell(f"slicebench: {line}")

    def _milestone(self, line: str) -> str | None:
        if attempt := _ATTEMPT.fullmatch(line):
            return attempt["end"]
        if _ENDED.fullmatch(line):
            return None
        worker = _WORKER.fullmatch(line)
        if worker is None:
            return line
        judged = _JUDGED.fullmatch(worker["text"])
        if judged is None or judged["text"] in self._told or self._is_being_stopped():
            return None
        return judged["text"]

    def _is_being_stopped(self) -> bool:
        """Whether we were told so, or are called while a Ctrl-C or Prefect's signal unwinds the stages."""
        unwinding = sys.exc_info()[1]
        return self._stopping or (unwinding is not None and not isinstance(unwinding, Exception))
