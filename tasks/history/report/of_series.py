"""What the pages of series say, from what the history holds of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runtime.contract.roles import role_of
from tasks.history.dataset.decision import Decision
from tasks.history.dataset.lines import Shown, change_cells, machine_words
from tasks.history.dataset.recorded import Seen, middle
from tasks.history.fingerprint import FIELDS
from tasks.history.intervals import median_interval
from tasks.history.labels import mesh_label, plain
from tasks.history.report.series_page import Change, SeriesPage
from tasks.history.report.site_page import Entry
from tasks.history.report.spark import spark
from tasks.history.report.trend_model import Judged, Run, Trend


def series_page(shown: Shown) -> SeriesPage:
    """Returns what the page of a series says."""
    one = shown.one
    verdict, reason = shown.standing
    return SeriesPage(
        id=one.id,
        name=one.name.split(" / "),
        machine=machine_words(one),
        track=one.about["track"],
        verdict=verdict,
        reason=reason,
        trend=_trend(shown),
        changes=[_change(shown, decision) for decision in shown.decisions if decision.is_change],
        facts=_facts(shown),
    )


def entry(shown: Shown, link: str) -> Entry:
    """Returns a series' line in the table of all."""
    one = shown.one
    verdict, reason = shown.standing
    counting = [middle(seen.values) for seen in _settled(shown)]
    latest = shown.decisions[-1] if shown.decisions else None
    level = latest.level if latest else None
    return Entry(
        link=link,
        name=one.name.split(" / "),
        verdict=verdict,
        reason=reason,
        last_night=shown.nights[-1].night if shown.nights else "",
        nights=len(one.nights),
        unit=one.about["unit"],
        latest=one.latest,
        effect=one.latest / level - 1 if one.latest is not None and level else None,
        spark=spark(counting, level, f"{one.name}: {len(one.nights)} nights"),
    )


def _trend(shown: Shown) -> Trend:
    one, notes = shown.one, {}
    for found in shown.nights:
        if remarks := shown.remarks(found):
            notes[found.night] = "; ".join(remarks)
    settled = {id(seen) for seen in _settled(shown)}
    return Trend(
        label=one.name,
        unit=one.about["unit"],
        kind=role_of(one.about["operation"]),
        nights=list(dict.fromkeys(found.night for found in shown.nights)),
        runs=[
            Run(
                night=seen.night,
                value=middle(seen.values),
                interval=median_interval(seen.values),
                run_id=seen.run_id,
                versions=seen.versions,
                aside=seen.aside,
                settled=id(seen) in settled,
            )
            for seen in shown.seen
            if seen.run is not None
        ],
        judged=[_judged(shown, decision) for decision in shown.decisions],
        holes={hole.night: hole.cause or hole.status for hole in shown.holes},
        notes=notes,
    )


def _settled(shown: Shown) -> list[Seen]:
    """Returns the runs that speak for their nights: of each the last that counts."""
    of_night = {seen.night: seen for seen in shown.seen if seen.run is not None and not seen.aside}
    return list(of_night.values())


def _judged(shown: Shown, decision: Decision) -> Judged:
    return Judged(
        night=decision.night,
        level=decision.level,
        told=decision.told,
        words=_change_words(shown, decision) if decision.told else "",
        in_alert=decision.standing.alert is not None,
    )


def _change(shown: Shown, decision: Decision) -> Change:
    night, told, *_ = change_cells(shown, decision)
    return Change(night, told, _change_words(shown, decision))


def _change_words(shown: Shown, decision: Decision) -> str:
    _, _, by, between, versions = change_cells(shown, decision)
    told = f"{by} ({between})" if by and between else by
    return "; ".join(part for part in (told, versions) if part)


def _facts(shown: Shown) -> Sequence[tuple[str, str]]:
    one = shown.one
    definition = json.loads(one.about["definition"] or "{}") or {}
    mesh = definition.get("mesh")
    facts = [
        ("suite", one.about["suite"]),
        ("target", one.about["target"]),
        ("benchmark", f"{one.about['generator']}, {one.about['implementation']}"),
        *(("option " + name, plain(value)) for name, value in (definition.get("options") or {}).items()),
        *([("mesh", mesh_label(mesh))] if mesh else []),
        *((words, one.fingerprint[name]) for name, words in FIELDS.items() if name in one.fingerprint),
    ]
    return [(term, value) for term, value in facts if value]
