"""The results as rows and columns, in words for people: what the terminal, the report and Prefect's page show alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.contract.metrics import TIME
from runtime.contract.roles import Role
from tasks.history import changes
from tasks.history.labels import labels
from tasks.history.limits import Known, share_of, together
from tasks.history.quantities import between, seconds, size, speed
from tasks.history.results import PointOutcome, Results
from tasks.history.summary import OperationSummary, is_shown, summarize_passed
from tasks.history.verdict import FAILED, PREPARED, Verdict, Verdicts

if TYPE_CHECKING:
    from tasks.history.effect import Effect

BENCHMARK, SPEED, MEMORY, VERDICT = "benchmark", "save speed (until safe)", "peak memory", "verdict"

_ROLES: Mapping[str, Role] = {
    "save (blocking)": "save",
    "wait (background)": "wait",
    "restore": "restore",
    "recovery": "recovery",
}
"""Columns of times that benchmarks have in common, and the role of the operation that stands in each."""

COLUMNS = (BENCHMARK, "save (blocking)", "wait (background)", "restore", SPEED, MEMORY, VERDICT)
"""Those of a run that does what most do."""

_Operations = Sequence[OperationSummary]
_Summaries = Mapping[int, _Operations]


def table_rows(results: Results, verdicts: Verdicts) -> list[dict[str, str]]:
    """Returns a row per point, keys as `columns_of` says, in words for people; figures of those that passed."""
    summaries, names = summarize_passed(results), labels(results.points)
    own, known = _own(results, summaries), together(results)
    columns = _columns(results, summaries)
    rows = []
    for point in results.points:
        operations = summaries[point.point]
        cells = {
            BENCHMARK: names[point.point],
            SPEED: _save_speed(operations, known),
            MEMORY: _or_dash(lambda value: f"+{size(value)}", peak_memory(operations)),
            VERDICT: standing(point, verdicts),
        }
        times = {name: headline(operations, role) for name, role in _ROLES.items()}
        times |= {name: _named(operations, operation) for name, operation in own.items()}
        cells |= {name: duration(one, _effect(verdicts, point, one)) for name, one in times.items()}
        rows.append({name: cells[name] for name in columns})
    return rows


def columns_of(results: Results) -> tuple[str, ...]:
    """Returns the columns of a run's table.

    What a user's class times under names of its own gets columns too, and then columns in which nothing would stand
    are left out. Recovery is one only where something was disrupted or timed as such.
    """
    return _columns(results, summarize_passed(results))


def _columns(results: Results, summaries: _Summaries) -> tuple[str, ...]:
    own = _own(results, summaries)
    roles = {one.role for operations in summaries.values() for one in operations}
    if any(point.disruption is not None for point in results.points):
        roles.add("recovery")
    always = () if own else ("save", "wait", "restore")
    times = [name for name, role in _ROLES.items() if role in roles or role in always]
    saved = [SPEED] if "save" in roles or not own else []
    return (BENCHMARK, *times, *own, *saved, MEMORY, VERDICT)


def standing(point: PointOutcome, verdicts: Verdicts) -> str:
    """Returns the verdict on a point; of one that did not pass whether it failed or was never run; of one that prepared
    others that it did."""
    if point.prepared:
        return PREPARED
    if point.status == "failed":
        return FAILED
    return (Verdict.NOT_RUN if point.status == "not_run" else verdicts.of_point(point.point)).value


def headline(operations: _Operations, role: Role) -> OperationSummary | None:
    """Returns the operation to show for a role: of several (save_0, save_1 …) the one that took longest."""
    return max((one for one in operations if one.role == role), key=lambda one: one.time.median, default=None)


def duration(operation: OperationSummary | None, effect: Effect | None = None) -> str:
    """Returns median and interval of an operation's time, and how it differs from earlier runs; or a dash."""
    if operation is None:
        return "–"
    lines = [seconds(operation.time.median), between(operation.time.interval, "s")]
    if effect is not None:
        lines += [changes.change(effect), changes.interval(effect)]
    return "\n".join(line for line in lines if line)


def whole_save(operations: _Operations) -> float | None:
    """Returns the bytes a second of a save until it is durable: payload over blocking and background time."""
    save, wait = headline(operations, "save"), headline(operations, "wait")
    if save is None or not save.payload_bytes:
        return None
    took = save.time.median + (wait.time.median if wait else 0.0)
    return save.payload_bytes / took if took > 0 else None


def _save_speed(operations: _Operations, known: Known) -> str:
    """Returns the speed of a save, and below it how near that is to what the machine can do."""
    rate, save = whole_save(operations), headline(operations, "save")
    if rate is None or save is None:
        return "–"
    share = share_of(replace(save, bytes_per_s=rate), known)
    return speed(rate) if share is None else f"{speed(rate)}\n{share.words}"


def peak_memory(operations: _Operations) -> float | None:
    """Returns the most memory, in bytes, that any of the operations needed beyond what was in use."""
    return max((one.memory_bytes for one in operations if one.memory_bytes is not None), default=None)


def _own(results: Results, summaries: _Summaries) -> dict[str, str]:
    """Returns column → operation, of those that a user's class timed under a name of its own."""
    operations = dict.fromkeys(
        one.operation
        for point in results.points
        for one in summaries[point.point]
        if one.role == "other" and is_shown(one.operation, point)
    )
    taken = {*COLUMNS, *_ROLES}
    return {f"{name} (operation)" if name in taken else name: name for name in operations}


def _named(operations: _Operations, operation: str) -> OperationSummary | None:
    return next((one for one in operations if one.operation == operation), None)


def _effect(verdicts: Verdicts, point: PointOutcome, operation: OperationSummary | None) -> Effect | None:
    """Returns how an operation's time differs from earlier runs, where that was judged."""
    if operation is None:
        return None
    wanted = point.point, operation.operation, TIME
    return next(
        (one.effect for one in verdicts.series if (one.point, one.operation, one.metric) == wanted), None
    )


def _or_dash(words: Callable[[float], str], value: float | None) -> str:
    return "–" if value is None else words(value)
