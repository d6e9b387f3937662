"""How a run ends: the exit code and causes of everything that happened in it, and the one line that sums it up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from runtime.contract.errors import ExitCode, SlicebenchError, Trouble, worst
from tasks.config.commands import resume
from tasks.history.results import Results
from tasks.history.verdict import Verdicts
from tasks.leases.holding import Holding, Taken
from tasks.leases.outcome import end_pass
from tasks.leases.stopped import left_standing
from tasks.stages.context import Run
from tasks.stages.finish import finish
from tasks.stages.run import exit_code_of, outcome_of
from tasks.targets.types import Outcome

_INCOMPLETE = frozenset({"missing", "damaged", "newer_schema", "not_run"})
"""Troubles of collect that make the results less than what was asked for."""


@dataclass(frozen=True)
class Interruption:
    """What signals raise where a run is played, and what is said of one that is not Ctrl-C."""

    raised: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit)
    told: Callable[[], str] = lambda: "ended by a signal"

    def behind(self, error: BaseException) -> BaseException | None:
        """Returns what a signal raised, where an error is that or came of it.

        A Ctrl-C within Prefect's task engine makes the engine fail while it tidies up, with an error of its own.
        """
        seen: BaseException | None = error
        while seen is not None and not isinstance(seen, self.raised):
            seen = seen.__cause__ or seen.__context__
        return seen

    def code_of(self, error: BaseException) -> ExitCode:
        """Returns the exit code of an error that ended a run."""
        if isinstance(error, SlicebenchError):
            return error.exit_code
        return ExitCode.INFRASTRUCTURE if self.behind(error) is None else ExitCode.INTERRUPTED

    def words(self, error: BaseException) -> str:
        """Returns what is told of an error that ended a run."""
        if isinstance(error, SlicebenchError):
            return str(error)
        behind = self.behind(error)
        if isinstance(behind, KeyboardInterrupt):
            return "interrupted"
        if behind is not None:
            return self.told()
        return f"slicebench itself failed: {type(error).__name__}: {error}"


@dataclass
class Ending:
    """Filled in as the stages go by. `error` is what ended them early, if anything did.

    `left`: the workload goes on by itself, so how the run ended is yet to come.
    """

    run: Run
    interruption: Interruption = field(default_factory=Interruption)
    outcome: Outcome | None = None
    results: Results | None = None
    verdicts: Verdicts | None = None
    report: str | None = None
    error: BaseException | None = None
    not_given_back: SlicebenchError | None = None
    left: bool = False
    code: ExitCode = ExitCode.DONE
    causes: list[str] = field(default_factory=list)

    @contextmanager
    def written_down(self) -> Iterator[None]:
        """Around the stages: writes outcome.json when they are through, however that came about.

        An error of ours ends here, for it is told by outcome and state; others and signals go on their way. A run
        that is in another process's hands is left to that: the error says so, and nothing is written.
        """
        try:
            yield
        except SlicebenchError as error:
            self.error = error
            if isinstance(error, Taken) and self.run.spec.lease is None:
                raise
        except BaseException as error:
            self.error = error
            self._write()
            raise
        self._write()

    def _write(self) -> None:
        found = [(code, cause) for code, cause in self._found() if code is not ExitCode.DONE]
        self.causes = [cause for _, cause in found]
        if self.left:
            self.code = worst(code for code, _ in found)
            end_pass(self.run.folder, time.time())
            return
        verdict = self.verdicts.of_run(self.results) if self.verdicts and self.results else None
        self.code = finish(
            self.run, [code for code, _ in found], self.causes, verdict, self.report, self._trouble
        )

    @contextmanager
    def noting_what_stays(self) -> Iterator[None]:
        """Around teardown: what could not be given back decides the exit code, but hides no result."""
        try:
            yield
        except SlicebenchError as error:
            self.not_given_back = error

    @contextmanager
    def told_if_stopped(self, lease: Holding) -> Iterator[None]:
        """Around giving back: who did not want to wait for that is told what stands. Raises Leaked then."""
        before = lease.lease
        try:
            yield
        except BaseException as error:
            stopped = self.interruption.behind(error) is not None and not isinstance(error, SlicebenchError)
            left = left_standing(lease.ledger, before) if stopped else None
            if left is None:
                raise
            raise left from error

    @property
    def _trouble(self) -> Trouble | None:
        """The kind of what ended it, where another place may not have that."""
        return self.error.trouble if isinstance(self.error, SlicebenchError) else None

    @property
    def failed(self) -> bool:
        """Whether the stages so far went wrong, in a way that somebody may want to look into."""
        code = worst(code for code, _ in self._found())
        return code in (ExitCode.WORKLOAD_FAILED, ExitCode.INFRASTRUCTURE)

    @property
    def message(self) -> str:
        """How it ended in one line: the verdict, or the exit code's name and the causes."""
        if self.left and self.code is ExitCode.DONE:
            return f"{self.code.name}: its workload goes on by itself; come back with {resume(self.run.folder.uri)}"
        if self.code is ExitCode.DONE:
            if self.verdicts is None or self.results is None:
                return ""
            return f"{self.verdicts.of_run(self.results)}: {self.verdicts.reason}"
        return f"{self.code.name}: {one_line(self.causes)}"

    def _found(self) -> list[tuple[ExitCode, str]]:
        """Returns every code that applies and why; what was noticed first comes first, as the likely root.

        A run never ends better than its verdict: what no stage called wrong is, where the verdict says so.
        """
        found = list(self._noticed())
        if self.verdicts is not None and self.results is not None:
            code = self.verdicts.code_of_run(self.results)
            if code is not ExitCode.DONE and code not in {one for one, _ in found}:
                found.append((code, self.verdicts.reason))
        return [*found, *self._broken()]

    def _noticed(self) -> Iterator[tuple[ExitCode, str]]:
        """Yields what the workload and its results tell."""
        points = self.results.points if self.results is not None else ()
        outcome = self.outcome or outcome_of(self.run)
        if outcome is not None:
            code = exit_code_of(outcome)
            # A failed point says which one it was; a workload that failed by it has nothing to add.
            told = code is ExitCode.WORKLOAD_FAILED and any(point.status == "failed" for point in points)
            if not told:
                yield code, outcome.attempts[-1].cause
        if self.results is not None:
            for point in points:
                if point.status == "failed":
                    yield ExitCode.WORKLOAD_FAILED, f"{point.benchmark}: {point.cause}"
            for trouble in self.results.troubles:
                if trouble.kind in _INCOMPLETE:
                    yield ExitCode.INFRASTRUCTURE, trouble.what

    def _broken(self) -> Iterator[tuple[ExitCode, str]]:
        """Yields what ended the stages early, and what could not be given back."""
        if self.error is not None:
            yield self.interruption.code_of(self.error), self.interruption.words(self.error)
        if self.not_given_back is not None:
            yield self.not_given_back.exit_code, str(self.not_given_back)


def one_line(causes: list[str]) -> str:
    """Returns the first cause, and how many more there are."""
    first = causes[0].splitlines()[0] if causes and causes[0] else "no cause is known"
    return first if len(causes) <= 1 else f"{first} (and {len(causes) - 1} more)"
