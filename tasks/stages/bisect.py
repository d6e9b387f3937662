"""Finds which commit or version made a series what it is: runs builds between a good and a bad night, by halves."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError
from runtime.contract.names import SUITE_FILE
from tasks.cloud.storage import Folder, open_folder, read_json
from tasks.config.home import HISTORY_VARIABLE, home
from tasks.config.nightly import Version
from tasks.config.nightly_cells import Cell, CellRun
from tasks.config.request import RunRequest
from tasks.history.bisection import Measure, Next, next_step
from tasks.history.comparison import SMALLEST_MEMORY
from tasks.history.dataset.recorded import Seen
from tasks.history.detection.baseline import scatter_of as scatter_of_nights
from tasks.history.detection.series import run_of
from tasks.stages.bisect_row import Build, Ends
from tasks.stages.context import Say
from tasks.stages.files import REQUEST_FILE
from tasks.stages.history import rows_of_folder
from tasks.stages.nightly_run import Hands, RunEnd, Watch, measure

USUAL_SCATTER = 0.02
"""What runs of an unchanged build are taken to scatter by where the history is too short to tell, of logarithms."""
LIMIT_S, STOP_S = 6 * 3600.0, 1800.0
"""Seconds that one run may take, and then for giving back."""


@dataclass(frozen=True)
class Tried:
    """A run of a build: the series' median in it, or why there is none. `machine`: the fingerprint's id."""

    build: int
    run_id: str
    folder: str
    value: float | None
    cause: str = ""
    machine: str = ""


@dataclass(frozen=True)
class Bisected:
    """The answer, the builds that it is about, and every run that it rests on."""

    answer: Next
    builds: Sequence[Build]
    tried: Sequence[Tried]


Run = Callable[[Build, int], Tried]
"""Makes the run of a build's so many-th measurement, from 0; `Tried.build` is filled in by the caller."""


def scatter_of(ends: Ends) -> float:
    """Returns what runs of an unchanged build of the series scatter by, of logarithms, as its good nights tell."""
    nights = [night for night in ends.shown.one.nights if night.name <= ends.good.night]
    scatter = scatter_of_nights(nights)
    return math.sqrt(scatter.variance) if scatter else USUAL_SCATTER


def bisect(builds: Sequence[Build], scatter: float, run: Run, say: Say) -> Bisected:
    """Runs what has to be run until there is an answer; runs that were made before count and are not made again.

    Raises InfrastructureError when the machine is another one in mid-way: its times would tell of the machine.
    """
    tried: list[Tried] = []
    while True:
        values = _values(tried)
        failed = frozenset(one.build for one in tried if one.value is None)
        step = next_step(len(builds), values, failed, scatter)
        if not isinstance(step, Measure):
            return Bisected(step, builds, tried)
        build = builds[step.build]
        say(f"{build.words}: run {len(values.get(step.build, ())) + 1} ({step.why})")
        one = run(build, len(values.get(step.build, ())))
        tried.append(replace(one, build=step.build))
        machines = {known.machine for known in tried if known.machine}
        if len(machines) > 1:
            raise InfrastructureError(
                f"{one.run_id} ran on other hardware than the runs before it: the times cannot be compared; "
                "name a target whose machines are alike, and another --output"
            )
        say(f"{build.words}: {one.cause or f'{one.value:.4g}'}")


def _values(tried: Sequence[Tried]) -> Mapping[int, Sequence[float]]:
    found: dict[int, list[float]] = {}
    for one in tried:
        if one.value is not None:
            found.setdefault(one.build, []).append(math.log(one.value))
    return found


def runner(ends: Ends, output: str, hands: Hands, stop: threading.Event, say: Say) -> Run:
    """Returns what makes runs by our own command, with the suite, target and settings of the bad night's run.

    They are named after series, build and count, so that a bisection that is begun again goes on where it was.
    """
    request = _request_of(open_folder(ends.bad.origin))
    suite = _suite_of(ends.bad, output)
    watch = Watch(LIMIT_S, STOP_S, stop, home() / "bisect" / ends.shown.one.id)
    apart = {name: value for name, value in hands.environ.items() if name != HISTORY_VARIABLE}
    hands = replace(hands, environ=apart)  # single commits are no nights of any series

    def run(build: Build, count: int) -> Tried:
        run_id = f"bisect-{ends.shown.one.id}-{build.key}-{count + 1}"
        asked = RunRequest.model_validate(
            request | {"suite": suite, "output": output, "run_id": run_id, **build.fields}
        )
        cell = Cell(asked.suite, asked.target, Version.model_validate({}))
        end = _interruptible(lambda: measure(CellRun(run_id, cell, asked), hands, watch, say), stop)
        return _tried(ends, end)

    return run


def _request_of(folder: Folder) -> dict[str, Any]:
    """Returns what a run was asked for, without what another one must not share with it."""
    document = read_json(folder, REQUEST_FILE)
    request = document.get("request") if isinstance(document, dict) else None
    if not isinstance(request, dict):
        raise BadInput(
            f"{folder.uri} is gone: it says how the series is measured", fix="run the nightly once more first"
        )
    own = (
        "run_id",
        "resume",
        "from_stage",
        "set",
        "repo",
        "branch",
        "pr",
        "commit",
        "jax_version",
        "jax_index",
    )
    recorded = ("history", "night", "nightly", "track", "lease", "keep", "keep_for")
    return {
        name: value
        for name, value in request.items()
        if name in RunRequest.model_fields and name not in (*own, *recorded) and value is not None
    }


def _suite_of(bad: Seen, output: str) -> str:
    """Returns the path of the suite as it was measured, overrides applied: the user's own file may have changed."""
    text = open_folder(bad.origin).read(SUITE_FILE)
    if text is None:
        raise BadInput(f"{bad.origin} has no {SUITE_FILE}: what it measured is not known")
    folder = home() / "bisect" / "suites"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{bad.run_id}.yaml"
    path.write_bytes(text)
    return str(path)


def _interruptible(call: Callable[[], RunEnd], stop: threading.Event) -> RunEnd:
    """Calls in another thread, so that a signal here stops the run and waits for it to give back."""
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(copy_context().run, call)
        try:
            while not begun.done():
                try:
                    return begun.result(timeout=1.0)
                except TimeoutError:
                    continue
            return begun.result()
        except BaseException:
            stop.set()
            raise


def _tried(ends: Ends, end: RunEnd) -> Tried:
    """Returns what a run says of the series."""
    cause = end.cause if end.status != "passed" else ""
    about = ends.shown.one.about
    if end.status != "not_run":
        for row in rows_of_folder(open_folder(end.folder)):
            same = all(row.get(name) == about[name] for name in ("benchmark_key", "operation", "metric"))
            if same and row.get("values"):
                least = SMALLEST_MEMORY if about["unit"] == "bytes" else 0.0
                if (found := run_of(row["values"], least)) is not None:
                    value, machine = math.exp(found.centre), str(row["machine"])
                    return Tried(-1, end.run_id, end.folder, value, machine=machine)
            if row.get("benchmark_key") == about["benchmark_key"] and row.get("cause"):
                cause = str(row["cause"])
    return Tried(-1, end.run_id, end.folder, None, cause or "it measured nothing of this series")
