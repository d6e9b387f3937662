"""The pipeline: the stages of one run in order, called as tasks by the Prefect flow, or directly by the command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flows.calls import tell_calls, telling_waits
from flows.ending import Ending, Interruption, one_line
from flows.lease import hold
from flows.narration import Narrator
from flows.patience import undisturbed
from runtime.contract.errors import ExitCode, SlicebenchError
from tasks.config.request import RunRequest
from tasks.history.results import Results
from tasks.history.verdict import Verdicts
from tasks.leases.holding import Holding
from tasks.stages.complete import complete
from tasks.stages.context import Run, Say
from tasks.stages.leaving import is_left
from tasks.stages.prepare import begin, prepare
from tasks.stages.run import something_to_measure
from tasks.targets.types import Image, Outcome, Uploaded, Workers


class Teardown(Protocol):
    """Gives back what was made under the lease."""

    def __call__(self, run: Run, lease: Holding, *, failed: bool = False) -> Any:
        """`failed`: somebody may want to look at what is there."""


@dataclass(frozen=True)
class Stages:
    """The stages to call, as tasks or as plain functions, and where a page about a failure goes, if anywhere."""

    build: Callable[[Run], Image]
    provision: Callable[[Run, Holding], Workers]
    upload: Callable[[Run, Workers, Image], Uploaded]
    run_workload: Callable[[Run, Uploaded, Holding], Outcome]
    come_back: Callable[[Run, Holding], None]
    collect: Callable[[Run], Results]
    teardown: Teardown
    compare: Callable[[Run], Verdicts]
    report: Callable[[Run], str]
    post_failure: Callable[[Run, Sequence[str]], None] = lambda run, causes: None


@dataclass(frozen=True)
class Ended:
    """How a run ended, in a code and a line that leads with the code's name unless all went well."""

    code: ExitCode
    message: str


def play(
    request: RunRequest, say: Narrator, stages: Stages, interruption: Interruption | None = None
) -> Ended:
    """Plays a run from its checks to its report; closes `say`. Signals and bugs go on their way, all else is told."""
    try:
        if request.verbose:
            tell_calls(say, again_s=60.0)  # workers are looked at every moment, for hours
        with telling_waits(say):
            return _played(request, say, stages, interruption or Interruption())
    except SlicebenchError as error:
        say(str(error))
        return Ended(error.exit_code, f"{error.exit_code.name}: {one_line(str(error).splitlines())}")
    finally:
        tell_calls(None)
        say.close()


def _played(request: RunRequest, say: Narrator, stages: Stages, interruption: Interruption) -> Ended:
    run = prepare(request, say)
    if request.resume and request.from_stage is None and (outcome := complete(run.folder)) is not None:
        return _nothing_to_do(outcome, say)
    say.write_to(run.folder)
    ending = measure(run, request, stages, interruption)
    if ending.code is not ExitCode.DONE:
        stages.post_failure(ending.run, ending.causes)
    return Ended(ending.code, ending.message)


def measure(run: Run, request: RunRequest, stages: Stages, interruption: Interruption) -> Ending:
    """The stages, in order. Whatever happens, what was made goes back, and how it ended is written down.

    Only a workload that is to be left to itself goes on under its lease: then the run has not ended.
    """
    ending = Ending(run, interruption)
    with ending.written_down():
        with hold(run) as lease:
            try:
                begin(run, request)
                if request.resume and is_left(run):
                    stages.come_back(run, lease)
                if something_to_measure(run):
                    image = stages.build(run)
                    workers = stages.provision(run, lease)
                    uploaded = stages.upload(run, workers, image)
                    ending.outcome = stages.run_workload(run, uploaded, lease)
                if not lease.left:
                    ending.results = stages.collect(run)
            except BaseException as error:
                ending.error = error
                raise
            finally:
                ending.left = lease.left
                if not ending.left:
                    with ending.told_if_stopped(lease), undisturbed(run.say), ending.noting_what_stays():
                        stages.teardown(run, lease, failed=ending.failed)
        if not ending.left:  # hardware is not held for what needs none
            ending.verdicts = stages.compare(run)
            ending.report = stages.report(run)
    return ending


def _nothing_to_do(outcome: Mapping[str, Any], say: Say) -> Ended:
    """Returns how a run that was to go on and lacks nothing had ended."""
    code, verdict = ExitCode(outcome["exit_code"]), outcome.get("verdict")
    say(f"run {outcome.get('run_id')} is finished and lacks nothing: nothing was done")
    if code is ExitCode.DONE:
        return Ended(code, f"{verdict}: nothing was left to do")
    return Ended(code, f"{code.name}: {one_line([str(cause) for cause in outcome.get('causes') or ()])}")
