"""Verdicts: what may be said of a series and of a run, and how sure it is. Written as verdicts.json."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.contract.errors import ExitCode, InfrastructureError
from runtime.contract.record import record_of

if TYPE_CHECKING:
    from tasks.history.effect import Effect
    from tasks.history.results import Results

VERDICTS_FILE = "verdicts.json"
_VERSION = 1


class Verdict(enum.StrEnum):
    """What the data can tell. REGRESSED and IMPROVED are for a detector that controls false alarms over all series."""

    PASS = "PASS"
    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO_BASELINE"
    NOT_RUN = "NOT_RUN"


_FIRST_THAT_APPLIES = (
    Verdict.NOT_RUN,
    Verdict.REGRESSED,
    Verdict.INCONCLUSIVE,
    Verdict.NO_BASELINE,
    Verdict.IMPROVED,
    Verdict.PASS,
)


FAILED = "FAILED"
"""Stands in place of a verdict where a benchmark ran and failed: of that benchmark, and of its run."""

PREPARED = "PREPARED"
"""Likewise of one that made what others of its suite read, and of a run of nothing else: nothing is to be compared."""

_CODES = {
    FAILED: ExitCode.WORKLOAD_FAILED,
    Verdict.NOT_RUN.value: ExitCode.INFRASTRUCTURE,
    Verdict.REGRESSED.value: ExitCode.REGRESSION,
}


@dataclass(frozen=True)
class SeriesVerdict:
    """The verdict on one metric of one operation of one point. `reason` is one sentence for people.

    `previous_median` is that of the latest earlier run of the series, in `unit`.
    """

    point: int
    benchmark: str
    benchmark_key: str
    operation: str
    metric: str
    unit: str
    verdict: Verdict
    reason: str
    effect: Effect | None = None
    previous_median: float | None = None


@dataclass(frozen=True)
class Verdicts:
    """The verdict on a run. `baseline` names the runs it was compared with, the latest first.

    `not_comparable` says of earlier runs that were left out how many, and why; `machine` what the hardware can do now
    and could not then, or the other way round.
    """

    run_id: str
    overall: Verdict
    reason: str
    series: Sequence[SeriesVerdict] = ()
    baseline: Sequence[str] = ()
    not_comparable: Sequence[str] = ()
    machine: Sequence[str] = ()

    def of_point(self, point: int) -> Verdict:
        """Returns the verdict on one point: the first of its series' that applies."""
        return overall([series.verdict for series in self.series if series.point == point])

    def of_run(self, results: Results) -> str:
        """Returns the verdict on the run, or FAILED where all benchmarks ran and some failed: exit code 1; PREPARED
        where all that it was to do was to make what others read."""
        if results.points and all(point.prepared for point in results.points):
            return PREPARED
        statuses = {point.status for point in results.points}
        failed = "failed" in statuses and "not_run" not in statuses
        return FAILED if failed and self.overall is Verdict.NOT_RUN else self.overall.value

    def code_of_run(self, results: Results) -> ExitCode:
        """Returns the exit code that a run with this verdict has at least."""
        return _CODES.get(self.of_run(results), ExitCode.DONE)

    def to_json(self) -> str:
        """Returns all of it as JSON text."""
        return json.dumps({"version": _VERSION, **dataclasses.asdict(self)}, indent=1, sort_keys=True)


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Returns the verdict that outranks the others; of none: NOT_RUN, for nothing was measured."""
    return min(verdicts, key=_FIRST_THAT_APPLIES.index, default=Verdict.NOT_RUN)


def series_words(series: SeriesVerdict) -> str:
    """Returns what a series measures, in words: save, save memory, save device memory."""
    if series.unit == "s":
        return series.operation
    return f"{series.operation} {'device ' if series.metric.startswith('device') else ''}memory"


def verdicts_from_json(content: bytes | str, place: str, fix: str) -> Verdicts:
    """Reads verdicts.json. Raises InfrastructureError, naming `place` and `fix`, when it cannot."""
    try:
        fields: dict[str, Any] = json.loads(content)
        if fields.pop("version") > _VERSION:
            raise InfrastructureError(f"{place} was written by a newer slicebench: upgrade")
        fields["series"] = [_series(series) for series in fields["series"]]
        return record_of(Verdicts, fields, overall=Verdict(fields["overall"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InfrastructureError(f"{place} is damaged ({error}): {fix}") from error


def _series(fields: dict[str, Any]) -> SeriesVerdict:
    from tasks.history.effect import Effect

    effect = record_of(Effect, fields["effect"]) if fields["effect"] else None
    return record_of(SeriesVerdict, fields, verdict=Verdict(fields["verdict"]), effect=effect)
