"""The report of a night: what changed, what did not run, what it cost, with links to its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.errors import ExitCode
from tasks.cloud.storage import Folder
from tasks.config.commands import run_words
from tasks.history.alerts import Event
from tasks.history.night_told import SeriesTold
from tasks.history.quantities import digits, moment, percent, quantity, seconds
from tasks.history.report.leading import leading
from tasks.history.report.lines import Line, mood_of
from tasks.history.report.night import render_night
from tasks.history.report.spark import spark
from tasks.history.verdict import Verdict, overall
from tasks.stages.files import REPORT_FILE
from tasks.stages.history_site import INDEX, page_name
from tasks.stages.nightly_cost import Cost
from tasks.stages.nightly_record import CellEnd, NightRecord

_CHANGED = (Verdict.REGRESSED, Verdict.IMPROVED)
_UNKNOWN = {Verdict.NO_BASELINE, Verdict.INCONCLUSIVE}
_UNJUDGED = (
    "Everything ran. There are too few nights yet, or they differ too much, to say whether anything changed."
)
_WORDS = {"passed": "ran", "failed": "FAILED", "partly": "NOT_RUN in part", "not_run": "NOT_RUN"}
_MEANS = {
    ExitCode.DONE: "Everything ran, and nothing got worse as far as can be told.",
    ExitCode.WORKLOAD_FAILED: "A benchmark failed.",
    ExitCode.INFRASTRUCTURE: "Something did not run: of that nothing is known.",
    ExitCode.REGRESSION: "Something became slower or needs more than before.",
    ExitCode.LEAKED: "Something that was made could not be proven gone.",
    ExitCode.INTERRUPTED: "The night was interrupted; everything was given back.",
}


def report_night(folder: Folder, record: NightRecord) -> str:
    """Writes report.html into the night's folder; returns where it lies."""
    folder.write(REPORT_FILE, render_night(page_of(record, folder.uri)).encode())
    return f"{folder.uri}/{REPORT_FILE}"


def page_of(record: NightRecord, folder: str) -> dict[str, Any]:
    """Returns everything that the page says, which is to lie in that folder."""
    code = ExitCode(record.exit_code or 0)
    told = record.told.series if record.told else ()
    site = f"{record.site}/{INDEX}" if record.site else ""
    lines = {id(one): _series(one, _page_of_series(record, one, folder)) for one in told}
    return {
        "title": f"Nightly {record.nightly}, {record.night}",
        "night": f"{record.nightly} {record.night}",
        "when": moment(record.began_at),
        "mood": mood_of(verdict_of(record)) if code is ExitCode.DONE else "bad",
        "answer": answer(record),
        "verdict": verdict_of(record),
        "verdict_means": _means(record),
        "troubles": [_trouble(cell) for cell in record.cells if cell.status != "passed"]
        + [{"title": "The night itself", "status": "trouble", "lines": [one]} for one in record.troubles],
        "judged": judged_words(record),
        "shifts": list(record.told.shifts) if record.told else [],
        "changes": [lines[id(one)] for one in told if one.told or one.verdict in _CHANGED],
        "undecided": [lines[id(one)] for one in record.undecided],
        "alerts": [_alert(one, "opened" if one in record.alerts else "open") for one in record.open_alerts]
        + [_alert(one, "closed") for one in record.alerts if one.kind == "closed"],
        "alert_headings": ("what", "since", "alert"),
        "cells": [_cell(cell) for cell in record.cells],
        "cell_headings": ("cell", "ran on", "runs", "time", "chip-hours", "cost", "result"),
        "missing": list(record.missing),
        "cost": cost_words(record),
        "series": list(lines.values()),
        "series_headings": ("series", "nights", "change", "chance of that", "verdict"),
        "site": leading(folder, site) if site else "",
    }


def judged_words(record: NightRecord) -> str:
    """Returns what is said of all series together."""
    if record.told is None:
        return "Nothing was judged."
    if not record.told.series:
        return "No series was measured."
    series = [one for one in record.told.series if not one.whole]
    counts = Counter(one.verdict for one in series)
    told = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    return f"{len(series)} series: {told}."


def verdict_of(record: NightRecord) -> str:
    """Returns the night in a word, as its exit code says it; not PASS where nothing can be compared, or stands out."""
    code = ExitCode(record.exit_code or 0)
    if code is ExitCode.DONE:
        if record.undecided:
            return Verdict.INCONCLUSIVE.value
        found = [one.verdict for one in (record.told.series if record.told else ())]
        return (overall(found) if found and set(found) <= _UNKNOWN else Verdict.PASS).value
    if code is ExitCode.INFRASTRUCTURE:
        return "NOT_RUN"
    return {ExitCode.REGRESSION: "REGRESSED", ExitCode.WORKLOAD_FAILED: "FAILED"}.get(code, code.name)


def _means(record: NightRecord) -> str:
    code = ExitCode(record.exit_code or 0)
    if code is ExitCode.DONE and (count := len(record.undecided)):
        stand = f"{count} series {'stands' if count == 1 else 'stand'}"
        return f"Everything ran. {stand} out and {'is' if count == 1 else 'are'} no change yet: the next night tells."
    return _UNJUDGED if verdict_of(record) in _UNKNOWN else _MEANS.get(code, "")


def answer(record: NightRecord) -> str:
    """Returns the one thing that a reader should know, in a sentence or two."""
    total = len(record.cells) + len(record.missing)
    counts: Counter[str] = Counter(cell.status for cell in record.cells)
    if counts["passed"] == total:
        told = f"All {counted(total, 'cell')} ran" if total > 1 else "The one cell ran"
    else:
        told = f"{counts['passed']} of {counted(total, 'cell')} ran"
        for status, words in (("failed", "failed"), ("partly", "ran in part"), ("not_run", "did not run")):
            if counts[status]:
                told += f", {counts[status]} {words}"
        if record.missing:
            told += f", {len(record.missing)} had not come to its end"
    series = [one for one in (record.told.series if record.told else ()) if not one.whole]
    if worse := [one for one in record.regressed if not one.whole]:
        told += f"; {len(worse)} of {len(series)} series got worse"
    if whole := [one for one in record.regressed if one.whole]:
        told += f"; {' and '.join(one.name for one in whole)} got worse together"
    return f"{told}. {judged_words(record)}"


def cost_words(record: NightRecord) -> str:
    """Returns what the night cost, and by which prices."""
    cost = record.cost
    unknown = [cell.title for cell in record.cells if cell.cost.dollars is None]
    known = sum((cell.cost.dollars or 0.0) for cell in record.cells)
    told = f"{_chip_hours(cost)} chip-hours, {_dollars(Cost(dollars=known))} by list prices of {record.prices_as_of}"
    if unknown:
        told += f", without {', '.join(unknown)}: no price is known for it"
    if record.budget is not None:
        told += f"; the budget was ${record.budget:.2f}"
    told += ". It counts from when hardware was asked for until it was given back"
    if record.cost.used:
        told += ", by the price of where it was and how it was paid for"
    return f"{told}."


def _trouble(cell: CellEnd) -> dict[str, Any]:
    lines = [cell.cause, *(f"tried first: {one}" for one in cell.tried)]
    for run in cell.runs:
        if run.status != "passed":
            lines.append(f"slicebench explain {run_words(run.folder)}")
    return {"title": cell.title, "status": _WORDS[cell.status], "lines": lines}


def _cell(cell: CellEnd) -> Line:
    ran = [run for run in cell.runs if run.began_at is not None and run.ended_at is not None]
    took = sum((run.ended_at or 0.0) - (run.began_at or 0.0) for run in ran)
    latest = next((run for run in reversed(cell.runs) if run.report), None)
    cells = [
        (cell.title, "\n".join(run.run_id for run in cell.runs)),
        (cell.at, "" if cell.at == cell.target else f"{cell.target} had no room"),
        (str(len(cell.runs)), f"the second: {cell.again}" if cell.again else ""),
        (seconds(took) if ran else "–", ""),
        (_chip_hours(cell.cost), ""),
        (_dollars(cell.cost), "\n".join(cell.cost.used)),
        (_WORDS[cell.status], cell.cause or "every benchmark passed"),
    ]
    link = f"../{latest.run_id}/{REPORT_FILE}" if latest else ""
    return Line(cells, "good" if cell.status == "passed" else "bad", link=link)


def _page_of_series(record: NightRecord, one: SeriesTold, folder: str) -> str:
    """Returns the link to the page of a series; empty where it has none: what was measured in turns is no series."""
    return leading(folder, f"{record.site}/{page_name(one.series)}") if record.site and one.recent else ""


def _series(one: SeriesTold, link: str) -> Line:
    between = "" if one.low is None or one.high is None else f"{percent(one.low)} to {percent(one.high)}"
    chance = "–" if one.probability is None else f"{one.probability:.2g}"
    drawn = spark(one.recent, one.level, f"{one.name}: its latest {len(one.recent)} nights")
    latest = quantity(one.recent[-1], one.unit) if one.recent else "–"
    cells = [
        (one.name, one.cell),
        ("", latest) if drawn else (latest, ""),
        ("–" if one.effect is None else percent(one.effect), between),
        (chance, ""),
        (one.verdict.value, one.reason),
    ]
    return Line(cells, mood_of(one.verdict), link=link, spark=drawn)


def _alert(event: Event, state: str) -> Line:
    cells = [(event.title, event.text), (event.since, ""), (state.upper(), f"alert {event.id}")]
    return Line(cells, "good" if state == "closed" else "bad")


def _chip_hours(cost: Cost) -> str:
    return "not known" if cost.chip_hours is None else digits(cost.chip_hours) if cost.chip_hours else "0"


def _dollars(cost: Cost) -> str:
    return "not known" if cost.dollars is None else f"${cost.dollars:.2f}"


def summary_lines(record: NightRecord) -> Sequence[str]:
    """Returns what the command says at the end, a line for each cell and one for the cost."""
    told = [
        f"{_WORDS[cell.status]:<16} {cell.title}" + (f"  ({cell.cause})" if cell.cause else "")
        for cell in record.cells
    ]
    told += [f"{'REGRESSED':<16} {one.name}  ({one.reason})" for one in record.regressed]
    told += [f"{'INCONCLUSIVE':<16} {one.name}  ({one.reason})" for one in record.undecided]
    told += [f"{event.kind:<16} alert: {event.sentence()}" for event in record.alerts]
    told += list(record.troubles)
    return [*told, f"{verdict_of(record)}: {answer(record)} {cost_words(record)}"]
