"""How a run ends: the exit code and causes of everything that happened in it, for outcome.json and for Prefect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from prefect import runtime
from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal
from prefect.states import Completed, Failed

from flows.api import PrefectApi
from flows.server import known_server
from runtime.contract.errors import ExitCode, SlicebenchError, worst
from tasks.history.results import Results
from tasks.history.verdict import Verdict, Verdicts
from tasks.leases.holding import Taken
from tasks.stages.context import Run, Say
from tasks.stages.finish import finish
from tasks.stages.run import exit_code_of, outcome_of
from tasks.targets.types import Outcome

_ASK_S = 3.0
"""Of the 30 s that Prefect leaves a cancelled flow run, no more than this goes to asking why it ends."""

_INCOMPLETE = frozenset({"missing", "damaged", "newer_schema", "not_run"})
"""Troubles of collect that make the results less than what was asked for."""


@dataclass
class Ending:
    """Filled in as the stages go by. `error` is what ended them early, if anything did."""

    run: Run
    outcome: Outcome | None = None
    results: Results | None = None
    verdicts: Verdicts | None = None
    report: str | None = None
    error: BaseException | None = None
    not_given_back: SlicebenchError | None = None
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
        verdict = self.verdicts.of_run(self.results) if self.verdicts and self.results else None
        self.code = finish(self.run, [code for code, _ in found], self.causes, verdict, self.report)

    @contextmanager
    def noting_what_stays(self) -> Iterator[None]:
        """Around teardown: what could not be given back decides the exit code, but hides no result."""
        try:
            yield
        except SlicebenchError as error:
            self.not_given_back = error

    @property
    def failed(self) -> bool:
        """Whether the stages so far went wrong, in a way that somebody may want to look into."""
        code = worst(code for code, _ in self._found())
        return code in (ExitCode.WORKLOAD_FAILED, ExitCode.INFRASTRUCTURE)

    def state(self) -> State[Any]:
        """Returns the flow run's last state; its message leads with the exit code's name."""
        if self.code is ExitCode.DONE:
            return Completed(
                message=f"{self.verdicts.overall}: {self.verdicts.reason}" if self.verdicts else None
            )
        return Failed(message=f"{self.code.name}: {one_line(self.causes)}")

    def _found(self) -> Iterator[tuple[ExitCode, str]]:
        """Yields every code that applies and why; what was noticed first comes first, as the likely root."""
        points = self.results.points if self.results is not None else ()
        outcome = self.outcome or outcome_of(self.run)
        # A failed point says which one it was; the workload as a whole has nothing to add to it.
        if outcome is not None and not any(point.status == "failed" for point in points):
            yield exit_code_of(outcome), outcome.attempts[-1].cause
        if self.results is not None:
            for point in points:
                if point.status == "failed":
                    yield ExitCode.WORKLOAD_FAILED, f"{point.benchmark}: {point.cause}"
            for trouble in self.results.troubles:
                if trouble.kind in _INCOMPLETE:
                    yield ExitCode.INFRASTRUCTURE, trouble.what
        if self.verdicts is not None and self.verdicts.overall is Verdict.REGRESSED:
            yield ExitCode.REGRESSION, self.verdicts.reason
        if self.error is not None:
            yield _code_of(self.error), _told(self.error)
        if self.not_given_back is not None:
            yield _code_of(self.not_given_back), _told(self.not_given_back)


def failed(error: SlicebenchError, say: Say) -> State[Any]:
    """Returns the state of a run that never began, having said everything that is wrong."""
    say(str(error))
    lines = str(error).splitlines()
    return Failed(message=f"{error.exit_code.name}: {one_line(lines)}")


def nothing_to_do(outcome: Mapping[str, Any], say: Say) -> State[Any]:
    """Returns the state of a run that was to go on and lacks nothing: that of how it had ended."""
    code, verdict = ExitCode(outcome["exit_code"]), outcome.get("verdict")
    say(f"run {outcome.get('run_id')} is finished and lacks nothing: nothing was done")
    if code is ExitCode.DONE:
        return Completed(message=f"{verdict}: nothing was left to do")
    return Failed(message=f"{code.name}: {one_line([str(cause) for cause in outcome.get('causes') or ()])}")


def one_line(causes: list[str]) -> str:
    """Returns the first cause, and how many more there are."""
    first = causes[0].splitlines()[0] if causes and causes[0] else "no cause is known"
    return first if len(causes) <= 1 else f"{first} (and {len(causes) - 1} more)"


def _cancelled_in_prefect() -> bool:
    """Whether the signal that ended this flow run came because its server was told to cancel it."""
    server, flow_run_id = known_server(), runtime.flow_run.id
    if server is None or flow_run_id is None:
        return False
    try:
        with PrefectApi(server, timeout_s=_ASK_S) as api:
            return api.flow_run(str(flow_run_id)).state_type in ("CANCELLING", "CANCELLED")
    except SlicebenchError:
        return False


def _code_of(error: BaseException) -> ExitCode:
    if isinstance(error, SlicebenchError):
        return error.exit_code
    return ExitCode.INFRASTRUCTURE if _signal_behind(error) is None else ExitCode.INTERRUPTED


def _signal_behind(error: BaseException) -> BaseException | None:
    """Returns what a signal raised, where an error is that or came of it.

    A Ctrl-C within Prefect's task engine makes the engine fail while it tidies up, with an error of its own.
    """
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt | TerminationSignal | SystemExit):
        seen = seen.__cause__ or seen.__context__
    return seen


def _told(error: BaseException) -> str:
    if isinstance(error, SlicebenchError):
        return str(error)
    behind = _signal_behind(error)
    if isinstance(behind, KeyboardInterrupt):
        return "interrupted"
    if behind is not None:
        return "cancelled in Prefect" if _cancelled_in_prefect() else "ended by a signal"
    return f"slicebench itself failed: {type(error).__name__}: {error}"
