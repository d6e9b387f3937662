"""Series and their nights as lines of text, and as objects for programs. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.metrics import describe
from tasks.history.dataset.decision import LEAST, Decision
from tasks.history.dataset.notes import Notes
from tasks.history.dataset.of_machine import name_of_machine
from tasks.history.dataset.recorded import Hole, Recorded, Seen, middle
from tasks.history.detection.baseline import ENOUGH_NIGHTS, baseline_of
from tasks.history.detection.evidence import before
from tasks.history.quantities import percent, plus_minus, printable, quantity
from tasks.history.verdict import Verdict

NO_VALUE = "no value of it is a positive number"

_HEADINGS = ("series", "what", "track", "on", "nights", "last night", "latest")


def list_lines(series: Sequence[Recorded]) -> list[str]:
    """Returns a table of series; nothing for none."""
    return table([_HEADINGS, *(_row(one) for one in series)]) if series else []


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns rows as lines whose columns stand below each other, without what would steer a terminal."""
    clean = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in clean) for column in range(len(clean[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in clean
    ]


@dataclass(frozen=True)
class Shown:
    """All that is known of one series: what each run saw, what gave nothing, what was decided and what people said."""

    one: Recorded
    seen: Sequence[Seen]
    holes: Sequence[Hole]
    decisions: Sequence[Decision]
    notes: Notes

    @property
    def nights(self) -> list[Seen | Hole]:
        """Returns all runs in the order of their nights, those that gave nothing too."""
        return sorted([*self.seen, *self.holes], key=lambda found: (found.night, found.began_at))

    @property
    def standing(self) -> tuple[Verdict | None, str]:
        """Returns where the series stands, and why; None: no verdict is given on it. One whose last night gave nothing
        is NOT_RUN, whatever was decided before."""
        last = self.nights[-1] if self.nights else None
        if isinstance(last, Hole):
            return Verdict.NOT_RUN, f"{last.night}: {last.cause or last.status.replace('_', ' ')}"
        counting = [night.name for night in self.one.nights]
        if last and not last.aside and last.night not in counting:
            return Verdict.NOT_RUN, f"{last.night}: {NO_VALUE}"
        if self.decisions:
            latest = self.decisions[-1]
            older = last is not None and last.night > latest.night
            return (
                latest.verdict,
                f"{latest.reason}{f' (of {latest.night}, the last that counts)' if older else ''}",
            )
        unit, usual = (about := self.one.about)["unit"], describe(about["metric"], about["unit"]).unit
        if unit != usual:
            return None, f"it is in {unit}, and judged in {usual} alone"
        if len(counting) < 2:
            return Verdict.NO_BASELINE, "no earlier night"
        return None, "it follows from times and memory, and these are judged"

    def remarks(self, found: Seen | Hole) -> list[str]:
        """Returns what people said of a run's night, but for why it is set aside."""
        said = self.notes.of(self.one.id, (found.night, found.run_id))
        words = {"annotate": "", "accept": "accepted: "}
        told = [f"{words[note.kind]}{note.text}".removesuffix(": ") for note in said if note.kind in words]
        return [one for one in told if one]

    def of_machine(self, night: str) -> list[str]:
        """Returns in words what the whole machine was off by in a night, of which the series was freed."""
        off = next(
            (one.shift for one in self.decisions if one.night == night and one.shift is not None), None
        )
        return [] if off is None else [f"the whole machine {percent(off)}"]


def show_lines(shown: Shown, last: int) -> list[str]:
    """Returns what there is to say of a series: its level, its changes, and its latest nights."""
    one = shown.one
    told = [
        f"{one.id}  {one.name}",
        f"on {machine_words(one)}; {one.about['track']}",
        _counts(one, shown.holes),
    ]
    verdict, reason = shown.standing
    told.append(f"{verdict.value if verdict else 'no verdict'}: {reason}")
    if level := _level(shown):
        told.append(level)
    told += _with_machine(shown.decisions)
    changes = [change_cells(shown, decision) for decision in shown.decisions if decision.is_change]
    rows = [_night(shown, found) for found in shown.nights[-last:]]
    return [
        *(printable(line) for line in told),
        *(["", *table([("change", "", "by", "interval", "with"), *changes])] if changes else []),
        "",
        *table([("night", "median", "repeats", "run", ""), *rows]),
    ]


def change_cells(shown: Shown, decision: Decision) -> tuple[str, ...]:
    """Returns a change in words: when, what, by how much, between which bounds, and which versions changed with it."""
    by = "" if decision.effect is None else percent(decision.effect)
    bounds = (decision.low, decision.high)
    between = " … ".join(percent(bound) for bound in bounds if bound is not None)
    standing = decision.standing
    accepted = decision.told == "new level" and standing.level == decision.night
    if decision.told == "recovered" or (decision.told == "new level" and not accepted):
        by = between = ""
    began = standing.alert.began if decision.told == "regressed" and standing.alert else decision.night
    told = "new level, accepted" if accepted else decision.told
    return (began, told, by, between, _versions(shown, decision, began))


def _versions(shown: Shown, decision: Decision, began: str) -> str:
    """Returns which versions differ between the nights by which a change was found and the one before them."""
    names = [night.name for night in shown.one.nights]
    window = max(1, decision.window)
    if began != decision.night and began in names:
        window = names.index(decision.night) - names.index(began) + 1
    return versions_changed(shown.seen, names, decision.night, window)


def versions_changed(seen: Sequence[Seen], nights: Sequence[str], night: str, window: int = 1) -> str:
    """Returns which versions differ between a night and the last one before a window that ends with it."""
    first = nights.index(night) - window + 1
    if first < 1:
        return ""
    of = {one.night: one.versions for one in seen if not one.aside}
    old, new = of[nights[first - 1]], of[night]
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name, '–')[:12]} → {new.get(name, '–')[:12]}" for name in changed)


def machine_words(one: Recorded) -> str:
    """Returns what a series runs on, in a few words."""
    told = one.fingerprint
    kind = told.get("device_kind") or told.get("platform", "unknown")
    workers = told.get("workers", "unknown")
    slices = f", {told['slices']} slices" if told.get("slices", "1") not in ("1", "unknown") else ""
    return f"{kind}, {workers} × {told.get('devices', 'unknown')} devices{slices}, {told.get('storage', 'unknown')}"


def series_object(one: Recorded) -> dict[str, Any]:
    """Returns what `history list --json` says of a series."""
    about = one.about
    names = ("suite", "target", "benchmark", "benchmark_key", "label", "operation", "metric", "unit", "track")
    return {
        "series": one.id,
        "name": one.name,
        **{name: about[name] for name in names},
        "fingerprint": dict(one.fingerprint),
        "definition": json.loads(about["definition"] or "null"),
        "nights": len(one.nights),
        "set_aside": one.set_aside,
        "last_night": one.nights[-1].name if one.nights else None,
        "latest": one.latest,
    }


def shown_object(shown: Shown) -> dict[str, Any]:
    """Returns what `history show --json` says: the series, each run of it, the holes, and what was decided."""
    runs = [
        {
            "night": seen.night,
            "run_id": seen.run_id,
            "began_at": seen.began_at,
            "median": middle(seen.values) if seen.run else None,
            "values": [value if math.isfinite(value) else None for value in seen.values],
            "unit": seen.unit,
            "versions": dict(seen.versions),
            "set_aside": seen.aside or None,
            "remarks": shown.remarks(seen),
        }
        for seen in shown.seen
    ]
    decided = [_decided(one) for one in shown.decisions]
    verdict, reason = shown.standing
    return {
        **series_object(shown.one),
        "verdict": verdict.value if verdict else None,
        "reason": reason,
        "runs": runs,
        "holes": [vars(hole) for hole in shown.holes],
        "decisions": decided,
    }


def _decided(one: Decision) -> dict[str, Any]:
    names = ("night", "reason", "effect", "low", "high", "probability", "level", "shift")
    alert = one.standing.alert
    return {
        **{name: getattr(one, name) for name in names},
        "verdict": one.verdict.value,
        "change": one.told or None,
        "alert_since": alert.began if alert else None,
    }


def value_of(centre: float) -> float:
    """Returns the value whose logarithm a run's centre is."""
    return math.exp(centre)


def _row(one: Recorded) -> tuple[str, ...]:
    latest = "–" if one.latest is None else quantity(one.latest, one.about["unit"])
    last = one.nights[-1].name if one.nights else "–"
    return (one.id, one.name, one.about["track"], machine_words(one), str(len(one.nights)), last, latest)


def _counts(one: Recorded, holes: Sequence[Hole]) -> str:
    told = [counted(len(one.nights), "night")]
    if one.nights:
        told[0] += f", {one.nights[0].name} to {one.nights[-1].name}"
    if one.set_aside:
        told.append(f"{counted(one.set_aside, 'run')} set aside")
    if holes:
        told.append(f"{counted(len(holes), 'run')} without a value")
    return "; ".join(told)


def _level(shown: Shown) -> str:
    one, decisions = shown.one, shown.decisions
    if not one.nights:
        return ""
    level, scatter, since = _held_to(one, decisions)
    if level is None:
        return f"no level yet: it takes {ENOUGH_NIGHTS} nights"
    told = [f"level {quantity(level, one.about['unit'])}{f' since {since}' if since else ''}"]
    if scatter is not None:
        told.append(f"nights scatter by {plus_minus(scatter)}")
    off = percent(value_of(one.nights[-1].settled.centre) / level - 1)
    last = one.nights[-1].name
    latest = "the latest" if shown.nights[-1].night == last else last
    return f"{', '.join(told)}; {latest} is {off} off it" if scatter is not None else told[0]


def _with_machine(decisions: Sequence[Decision]) -> list[str]:
    """Says what the whole machine was off by, where that is why a series stands at its level."""
    latest = decisions[-1] if decisions else None
    if latest is None or latest.shift is None:
        return []
    last = latest.shift if latest.shift_again is None else latest.shift_again
    if abs(last) < LEAST:
        return []
    where = name_of_machine(latest.group)
    return [f"the whole machine is {percent(last)} off, and the level with it: slicebench history {where}"]


def _held_to(one: Recorded, decisions: Sequence[Decision]) -> tuple[float | None, float | None, str]:
    """Returns what a series is held to, what its nights scatter by, and since when; as it was judged, where it was."""
    if decisions:
        latest = decisions[-1]
        return latest.level, latest.scatter, latest.standing.level or ""
    baseline = baseline_of(before(one.series))
    if baseline is None:
        return None, None, ""
    return value_of(baseline.centre), math.expm1(math.sqrt(baseline.variance)), ""


def _night(shown: Shown, found: Seen | Hole) -> tuple[str, ...]:
    remarks = shown.remarks(found)
    if isinstance(found, Hole):
        status = found.status.replace("_", " ")
        told = f"{status}: {found.cause}" if found.cause else status
        return (found.night, "–", "", found.run_id, "; ".join([told, *remarks]))
    median = quantity(middle(found.values), found.unit) if found.run else "–"
    aside = f"set aside: {found.aside}" if found.aside else "" if found.run else NO_VALUE
    return (
        found.night,
        median,
        str(len(found.values)),
        found.run_id,
        "; ".join(filter(None, [aside, *shown.of_machine(found.night), *remarks])),
    )
