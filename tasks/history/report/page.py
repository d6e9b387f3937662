"""The report: everything a page says, gathered as plain words, and put into the templates with all text escaped."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from runtime.contract.metrics import TIME
from tasks.history import changes
from tasks.history.columns import columns_of, standing
from tasks.history.effect import ENOUGH_RUNS
from tasks.history.found import found_lines
from tasks.history.labels import labels, short_generator
from tasks.history.limits import Known, beyond, together
from tasks.history.quantities import moment, seconds
from tasks.history.report import charts, hosts, limits, monitored, stragglers
from tasks.history.report.chart import WIDTH, shortened
from tasks.history.report.facts import environment, facts, settings
from tasks.history.report.heatmap import heat_maps
from tasks.history.report.hosts import Sampled, host_rows
from tasks.history.report.limits import limit_rows
from tasks.history.report.lines import (
    OPERATION_HEADINGS,
    Line,
    mood_of,
    operation_line,
    result_lines,
    series_headings,
    series_line,
)
from tasks.history.report.recovery import HEADINGS, disruption_words, recovery_rows
from tasks.history.results import PointOutcome, Results
from tasks.history.stragglers import hosts_of, straggler_lines
from tasks.history.summary import OperationSummary, is_shown, summarize_passed, summarize_results
from tasks.history.table import confidence_words
from tasks.history.verdict import FAILED, PREPARED, SeriesVerdict, Verdict, Verdicts

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).with_name("templates")

_MEANS = {
    Verdict.PASS: "What changed is within what runs differ by when nothing changed.",
    Verdict.REGRESSED: "Something became slower or needs more than before.",
    Verdict.IMPROVED: "Something became faster or needs less than before, and nothing got worse.",
    Verdict.INCONCLUSIVE: "The data cannot tell whether anything changed.",
    Verdict.NO_BASELINE: "There is no earlier run to compare with.",
    Verdict.NOT_RUN: "Something never ran: no verdict on speed.",
    FAILED: "Something failed: no verdict on speed.",
    PREPARED: "It made what others read: there is nothing to compare.",
}
_ROLE_WORDS = {
    "save": "save",
    "wait": "background of a save",
    "restore": "restore",
    "other": "other operations",
}


@dataclass(frozen=True)
class FailureLog:
    """What a worker said around the failure of a point; `name` is the whole log's in the run's folder."""

    point: int
    worker: int
    name: str
    excerpt: str


@dataclass(frozen=True)
class Surroundings:
    """What lies around the results: request.json, the build stage's outputs, ends of logs by worker, files by name,
    what was counted on the workers' hosts, and what Cloud Monitoring has of their accelerators."""

    request: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    failures: Sequence[FailureLog] = ()
    files: Sequence[str] = ()
    hosts: Sampled = field(default_factory=dict)
    monitored: Mapping[str, Any] = field(default_factory=dict)


def render_report(results: Results, verdicts: Verdicts, around: Surroundings) -> str:
    """Returns the page: one HTML document that loads nothing from anywhere."""
    from markupsafe import Markup

    style = Markup((TEMPLATES / "style.css").read_text())  # our own file: the only text that is not escaped
    return template().render(page=_page(results, verdicts, around), style=style, width=WIDTH)


@functools.cache
def template(name: str = "page.html.j2") -> Template:
    """Returns a page's template, compiled once: to do so takes longer than to fill it in."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    engine = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters["shortened"] = shortened
    return engine.get_template(name)


def _page(results: Results, verdicts: Verdicts, around: Surroundings) -> dict[str, Any]:
    summaries = summarize_passed(results)
    return {
        **_head(results, verdicts, around, summaries),
        **_measured(results, verdicts, summaries),
        **_workers(results, verdicts),
        **_compared(results, verdicts),
        **_surroundings(results, around),
    }


def _head(
    results: Results, verdicts: Verdicts, around: Surroundings, summaries: charts.Summaries
) -> dict[str, Any]:
    """What ran, what came of it, and what went wrong."""
    names, verdict = labels(results.points), verdicts.of_run(results)
    everything = [one for operations in summaries.values() for one in operations]
    return {
        "run_id": results.run_id,
        "title": f"{results.suite} on {results.target}",
        "when": moment(results.started_at) or "nothing was measured",
        "mood": mood_of(verdict),
        "answer": _answer(results, verdicts, everything),
        "verdict": verdict,
        "verdict_means": _MEANS[verdict],
        "failures": [
            _failure(point, names, verdicts, around) for point in results.points if point.status != "passed"
        ],
        "left_out": list(results.left_out),
        "troubles": [trouble.what for trouble in results.troubles if trouble.kind != "not_run"],
        "confidence": confidence_words(everything),
        "has_wait": any(one.role == "wait" for one in everything),
    }


def _measured(results: Results, verdicts: Verdicts, summaries: charts.Summaries) -> dict[str, Any]:
    """Times, memory and recovery, of all points together and of each."""
    names, known, as_far_as_it_came = labels(results.points), together(results), summarize_results(results)
    shown = [
        one for point in results.points for one in summaries[point.point] if is_shown(one.operation, point)
    ]
    return {
        "columns": columns_of(results),
        "rows": result_lines(results, verdicts),
        "durations": charts.durations_chart(results, summaries),
        "memory": charts.memory_chart(results, summaries),
        "memory_roles": [
            (role, words)
            for role, words in _ROLE_WORDS.items()
            if any(one.role == role and one.memory_bytes is not None for one in shown)
        ],
        "maps": heat_maps(results, summaries),
        "recovery": [Line(cells) for cells in recovery_rows(results, summaries)],
        "recovery_headings": HEADINGS,
        "operation_headings": OPERATION_HEADINGS,
        "points": [
            _point(point, names, results, as_far_as_it_came[point.point], verdicts, known)
            for point in results.points
        ],
    }


def _workers(results: Results, verdicts: Verdicts) -> dict[str, Any]:
    """Who was slower than others, and what held them up."""
    return {
        "stragglers": charts.stragglers_chart(results),
        "races": [Line(cells) for cells in stragglers.operation_rows(results)],
        "race_headings": stragglers.OPERATION_HEADINGS,
        "lateness": [Line(cells) for cells in stragglers.run_rows(results)],
        "lateness_headings": stragglers.RUN_HEADINGS,
        "found": found_lines(results),
        "straggler_lines": straggler_lines(results, hosts_of(results)),
        "machine": list(verdicts.machine),
        "beyond": beyond(results),
        "limits": [Line(cells) for cells in limit_rows(results)],
        "limit_headings": limits.HEADINGS,
    }


def _compared(results: Results, verdicts: Verdicts) -> dict[str, Any]:
    """What is held against earlier runs."""
    names = labels(results.points)
    return {
        "comparison": _comparison(verdicts),
        "not_comparable": verdicts.not_comparable,
        "effects": charts.effects_chart(results, verdicts.series),
        "series_headings": series_headings(verdicts),
        "series": [series_line(one, names) for one in verdicts.series if one.effect is not None],
        "enough_runs": ENOUGH_RUNS,
        "unbounded": _unbounded(verdicts.series),
        "unbounded_times": _unbounded([one for one in verdicts.series if one.metric == TIME]),
    }


def _surroundings(results: Results, around: Surroundings) -> dict[str, Any]:
    """Where it ran, and which files there are."""
    return {
        "facts": facts(results, around.request, around.image),
        "environment": environment(results),
        "hosts": [Line(cells) for cells in host_rows(around.hosts)],
        "host_headings": hosts.HEADINGS,
        "monitored": [Line(cells) for cells in monitored.monitored_rows(around.monitored)],
        "monitored_headings": monitored.HEADINGS,
        "monitored_note": monitored.note(around.monitored),
        "files": [(name, quote(name)) for name in around.files],
    }


def _unbounded(series: Sequence[SeriesVerdict]) -> str:
    """Returns what the word means, where it is told of any of these."""
    found = changes.any_unbounded(one.effect for one in series if one.effect)
    return changes.UNBOUNDED_MEANS if found else ""


def _answer(results: Results, verdicts: Verdicts, operations: Sequence[OperationSummary]) -> str:
    """Returns the one thing that a reader should know, in one or two sentences; numbers of what passed only."""
    told = []
    for role, words in (("save", "a save stopped training for"), ("restore", "a restore took")):
        times = [one.time.median for one in operations if one.role == role]
        if times:
            low, high = seconds(min(times)), seconds(max(times))
            told.append(f"{words} {low}" if low == high else f"{words} {low} to {high}")
    speeds = f"{' and '.join(told)} (medians)" if told else ""
    total = len(results.points)
    if results.shortfall:
        of = "the one that passed" if results.passed == 1 else f"the {results.passed} that passed"
        return f"{_sentence(results.shortfall)} {_sentence(f'of {of}, {speeds}' if speeds else '')}".rstrip()
    subject = "The benchmark" if total == 1 else f"All {total} benchmarks"
    return (
        f"{_sentence(f'{subject} passed' + (f': {speeds}' if speeds else ''))} {_sentence(verdicts.reason)}"
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _failure(
    point: PointOutcome, names: Mapping[int, str], verdicts: Verdicts, around: Surroundings
) -> dict[str, Any]:
    return {
        "label": names[point.point],
        "status": standing(point, verdicts),
        "cause": point.cause,
        "log": next((log for log in around.failures if log.point == point.point), None),
    }


def _comparison(verdicts: Verdicts) -> str:
    if not verdicts.baseline:
        return "There is no earlier run of this suite in the same output, on the same hardware."
    latest = f"The previous run is {verdicts.baseline[0]}."
    if len(verdicts.baseline) == 1:
        return f"{latest} With one run nothing is known of how runs differ when nothing changes."
    return f"{latest} The baseline is the median of {len(verdicts.baseline)} comparable runs."


def _point(
    point: PointOutcome,
    names: Mapping[int, str],
    results: Results,
    operations: Sequence[OperationSummary],
    verdicts: Verdicts,
    known: Known,
) -> dict[str, Any]:
    times = [one for one in results.of_point(point.point) if one.metric == TIME]
    summaries = {one.operation: one for one in operations}
    told = standing(point, verdicts)
    return {
        "anchor": f"point-{point.point}",
        "label": names[point.point],
        "about": f"{short_generator(point.generator)}, {point.implementation}"
        + (f", attempt {point.attempt}" if point.attempt and point.attempt > 1 else "")
        + (f"; {point.stopped}" if point.stopped else "")
        + (f"; disrupted: {words}" if (words := disruption_words(point)) else ""),
        "mood": mood_of(told),
        "status": told,
        "cause": point.cause,
        "samples": charts.samples_chart(times, summaries),
        "operations": [operation_line(one, known) for one in operations],
        "settings": settings(point.options, point.mesh, point.checkpoint),
    }
