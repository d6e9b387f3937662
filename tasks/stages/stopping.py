"""A workload that is stopped on purpose once so many checkpoints are complete: it has to go on from the newest."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.disruption import Restart
from runtime.contract.errors import BadInput
from runtime.contract.generators import find
from runtime.contract.names import CHECKPOINTS_FOLDER
from runtime.contract.record import record_of
from runtime.contract.suite import Point
from tasks.cloud.storage import read_json
from tasks.config.spec import RunSpec
from tasks.stages.attempts import Started, write_attempts
from tasks.stages.context import Run
from tasks.stages.recovery import Hearing
from tasks.stages.stored import stored_in
from tasks.targets.types import PREEMPTED, State, WorkloadRef

ON_PURPOSE = "stopped on purpose"
_TOO_LATE = "it was over before it could be stopped: give it more train_steps, or longer ones (step_s)"


@dataclass(frozen=True)
class Stopped:
    """Where an attempt was when it was stopped. `asked`: once how many checkpoints were complete; `complete`: the steps
    that then were, on all workers; `at`: seconds since the epoch.
    """

    attempt: int
    asked: int
    at: float
    complete: Sequence[int]
    reached: Restart


def refuse_unstoppable(spec: RunSpec) -> None:
    """Raises BadInput for a run that is to be stopped and could not go on, or in which nothing would be left to do."""
    asked = spec.stop_after_checkpoints
    if asked is None:
        return
    what = f"--stop-after-checkpoints {asked}"
    training = "runtime.benchmarks.training.Training"
    if len(spec.points) != 1 or spec.num_repeats != 1:
        told = f"{counted(len(spec.points), 'benchmark')}, {counted(spec.num_repeats, 'repeat')} each"
        raise BadInput(
            f"{what}: the suite has {told}, and one repeat of one is what is stopped",
            fix="choose it with --set only=[1] --set num_repeats=1",
        )
    [point] = spec.points
    generator = find(point.generator)
    if point.disruption is not None:
        raise BadInput(
            f"{what}: the suite disrupts its workers by itself", fix="remove disruption: from it, or the flag"
        )
    trains = generator is not None and generator.own_data and point.implementation == "native"
    if not trains and point.implementation != "user":
        raise BadInput(
            f"{what}: {point.benchmark} does not go on by itself when its workload is started again",
            fix=f"use {training}, or a class of your own with resumes = True",
        )
    if trains and (saves := _saves(point)) <= asked:
        raise BadInput(
            f"{what}: it saves {counted(saves, 'checkpoint')} in all, and one must be left to save after the stop",
            fix=f"--set benchmarks.0.options.train_steps={(asked + 2) * _interval(point)}, or stop it earlier",
        )
    if spec.target.kind in ("ssh", "tpu_vm") and "://" not in spec.output:
        raise BadInput(
            f"{what}: hosts write to disks of their own, where another start need not find the checkpoints",
            fix="name a bucket: --output gs://…",
        )


def _saves(point: Point) -> int:
    return math.ceil(int(point.options["train_steps"]) / _interval(point))


def _interval(point: Point) -> int:
    return int(point.options["save_interval_steps"])


def owed(run: Run, attempts: Sequence[Started]) -> bool:
    """Says whether the last of the attempts is to be stopped: it began anew, or what it goes on from was no stop."""
    if run.spec.stop_after_checkpoints is None:
        return False
    for one in reversed(attempts):
        if one.stopped and one.counts:
            return False
        if one.restart is None:
            break
    return True


def blow(run: Run, ref: WorkloadRef, hearing: Hearing) -> Callable[[], State | None]:
    """Returns what is asked after each event of an attempt that is to be stopped: when that is due it deletes the
    workload, and returns a state that says so, once.

    Where it was is written down first: whoever comes after one who was killed here knows that it was no accident.
    """
    asked = run.spec.stop_after_checkpoints
    struck = False

    def look() -> State | None:
        nonlocal struck
        complete, reached = hearing.complete(), hearing.reached()
        if asked is None or struck or len(complete) < asked or reached is None:
            return None
        struck = True
        told = counted(len(complete), "checkpoint")
        run.say(
            f"attempt {ref.attempt}: {told} complete (steps {_listed(complete)}): the workload is deleted"
        )
        stopped = Stopped(ref.attempt, asked, time.time(), complete, reached)
        run.folder.write(stopped_file(ref.attempt), json.dumps(asdict(stopped), indent=1).encode())
        run.target.stop(ref, 0.0)
        return State(PREEMPTED, ON_PURPOSE, f"{told} complete")

    return look


def settle(run: Run, attempts: list[Started]) -> Started:
    """Judges the last attempt, which has ended and was to be stopped; writes down what lies in the store where it was.

    One that had come to its end before does not count.
    """
    last = attempts[-1]
    stopped = read_stopped(run, last.n)
    if last.end == "succeeded":
        last = replace(last, end="lost", cause=_TOO_LATE, counts=False)
    elif last.end == "preempted" and stopped is not None and last.ref is not None and last.ref.output:
        last = replace(last, cause=f"{last.cause}; what it saved is where the next start does not look")
    elif last.end == "preempted" and stopped is not None:
        last = replace(last, stopped=True, reached=stopped.reached)
        _look(run, stopped)
    attempts[-1] = last
    write_attempts(run, attempts)
    return last


def finish_stop(run: Run, attempts: list[Started]) -> Started | None:
    """Ends the last attempt where somebody had begun to stop it and was killed over it; None: nobody had."""
    last = attempts[-1]
    stopped = read_stopped(run, last.n)
    if stopped is None or last.end or last.ref is None:
        return None
    run.say(f"attempt {last.n} was being stopped on purpose")
    run.target.stop(last.ref, 0.0)
    attempts[-1] = replace(last, end="preempted", cause=f"{ON_PURPOSE}; {_told(stopped)}")
    return settle(run, attempts)


def stopped_file(attempt: int) -> str:
    """Returns where it lies how far an attempt was when it was stopped, relative to the run's folder."""
    return f"stopped-a{attempt}.json"


def read_stopped(run: Run, attempt: int) -> Stopped | None:
    """Returns how far an attempt was when it was stopped on purpose; None: it was not, or that is damaged."""
    found: Any = read_json(run.folder, stopped_file(attempt))
    try:
        return record_of(Stopped, found, reached=record_of(Restart, found["reached"])) if found else None
    except (KeyError, TypeError):
        return None


def _look(run: Run, stopped: Stopped) -> None:
    """Adds what lies in the store to what is written down of a stop: nobody writes there now."""
    [point] = run.spec.points
    place = f"{CHECKPOINTS_FOLDER}/{point.key}/repeat_{stopped.reached.repeat}"
    stored = stored_in(run.folder, place)
    for one in stored.checkpoints:
        size = f"{one.bytes / 2**20:.3g} MiB"
        run.say(f"checkpoint of step {one.step}: {counted(one.objects, 'object')}, {size}")
    content = {**asdict(stopped), **asdict(stored)}
    run.folder.write(stopped_file(stopped.attempt), json.dumps(content, indent=1).encode())


def _told(stopped: Stopped) -> str:
    return f"{counted(len(stopped.complete), 'checkpoint')} complete"


def _listed(steps: Sequence[int]) -> str:
    return ", ".join(map(str, steps))
