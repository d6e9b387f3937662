"""Alerts: one for each thing that is wrong, opened once and closed once. What is told follows from what is wrong. Pure.

    wrong and not alerted ──> opened        alerted and not wrong any more ──> closed

Nothing else decides: a night that is played again, or one whose verdicts change because somebody excluded a night
before it, comes to the same, or to what is true then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

What = Literal["regressed", "not_run", "failed"]
Kind = Literal["opened", "closed"]


@dataclass(frozen=True)
class Wrong:
    """Something that is wrong tonight: a series that got worse, or a cell that did not run.

    `key` is the same each night; `change` is a fraction, of a series; `since`: the night in which it began.
    """

    key: str
    what: What
    title: str
    text: str
    since: str
    change: float | None = None


@dataclass(frozen=True)
class Event:
    """What is told, once. `number` counts the events of one key from 1: odd ones open, even ones close.

    `at`: seconds since the epoch.
    """

    key: str
    number: int
    nightly: str
    night: str
    what: What
    title: str
    text: str
    since: str
    at: float
    change: float | None = None
    report: str = ""

    @property
    def kind(self) -> Kind:
        """Whether it opens the alert or closes it."""
        return "opened" if self.number % 2 else "closed"

    @property
    def id(self) -> str:
        """What it is known by to those who get it: the same however often it is sent."""
        known = hashlib.sha256(f"{self.nightly}\n{self.key}".encode()).hexdigest()[:16]
        return f"{known}-{self.number:04d}"

    def message(self) -> dict[str, Any]:
        """Returns what is sent, for programs."""
        return {
            "kind": "slicebench.alert",
            "id": self.id,
            "state": self.kind,
            "nightly": self.nightly,
            "night": self.night,
            "what": self.what,
            "key": self.key,
            "title": self.title,
            "text": self.text,
            "since": self.since,
            "change": self.change,
            "at": self.at,
            "report": self.report,
        }

    def sentence(self) -> str:
        """Returns it in one line, for people."""
        word = {"regressed": "REGRESSED", "not_run": "NOT_RUN", "failed": "FAILED"}[self.what]
        head = word if self.kind == "opened" else f"recovered from {word}"
        where = f" {self.report}" if self.report else ""
        return f"{self.nightly} {self.night}: {head}: {self.title}: {self.text}{where}"


def open_alerts(events: Iterable[Event]) -> dict[str, Event]:
    """Returns the alerts that are open, by key: those whose last event opened them."""
    last: dict[str, Event] = {}
    for event in events:
        if event.key not in last or last[event.key].number < event.number:
            last[event.key] = event
    return {key: event for key, event in last.items() if event.kind == "opened"}


def to_tell(
    events: Sequence[Event],
    wrong: Sequence[Wrong],
    right: Mapping[str, str],
    nightly: str,
    night: str,
    at: float,
    report: str = "",
) -> list[Event]:
    """Returns the events that tonight adds. `right`: what is known to be right again, by key, with a word on why."""
    numbers: dict[str, int] = {}
    for event in events:
        numbers[event.key] = max(numbers.get(event.key, 0), event.number)
    opened = open_alerts(events)
    added = [
        Event(
            one.key, numbers.get(one.key, 0) + 1, nightly, night, one.what, one.title, one.text, one.since, at,
            one.change, report,
        )
        for one in {one.key: one for one in wrong}.values()
        if one.key not in opened
    ]  # fmt: skip
    still = {one.key for one in wrong}
    added += [
        Event(
            key, event.number + 1, nightly, night, event.what, event.title, right[key], event.since, at,
            event.change, report,
        )
        for key, event in opened.items()
        if key in right and key not in still
    ]  # fmt: skip
    return added
