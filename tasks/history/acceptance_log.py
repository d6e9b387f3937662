"""Reads saves, restores, losses and restarts out of a training program's log: axlearn's lines, and our own. Pure.

axlearn's lines begin as absl's do; where stars were put around the time for a reader, or the letter and the date were
cut away, they are read all the same. A restore has no line that says how long it took: it is the time from one line to
another, which may lie on both sides of midnight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tasks.history.acceptance import Start

_PREFIX = re.compile(
    r"\**(?:[IWEF](?:\d{4})\s+)?\**(\d\d):(\d\d):(\d\d\.\d{6})\**\s+\d+\s+[\w.]+:\d+\]\s+(?P<told>.*)",
    re.DOTALL,
)
_SAVED = re.compile(r"Serialization of \S+?/step_(\d+) completed in ([\d.]+(?:[eE][+-]?\d+)?) seconds")
_RESTORING = re.compile(r"Restoring checkpoint from directory \S+?/step_(\d+)")
_RESTORED = re.compile(r"Restored state from ckpt at step (\d+)")
_NOTHING = re.compile(r"Could not find any completed checkpoints under")
_WE_BEGIN = re.compile(r"^trains until step \d+ on ")
_WE_SAVED = re.compile(r"^saved step (\d+) in ([\d.]+) s$")
_WE_RESTORED = re.compile(r"^restored step (\d+) in ([\d.]+) s$")
_OUR_LOSS = re.compile(r"^step (?P<step>\d+): loss (?P<loss>\S+)$")
_DAY_S = 86400.0


@dataclass
class _Reading:
    """A start that is being read: of a step that several workers tell of, the slowest counts."""

    saves: dict[int, float] = field(default_factory=dict)
    restores: list[float] = field(default_factory=list)
    losses: dict[int, float] = field(default_factory=dict)
    resumed: int | None = None
    began: bool = False
    restoring: dict[int, float] = field(default_factory=dict)

    def over(self) -> Start:
        saves, saved = tuple(self.saves.values()), tuple(self.saves)
        return Start(saves, tuple(self.restores), self.losses, None, self.resumed, saved)


def read_log(lines: Iterable[str], loss: re.Pattern[str] | None = None) -> list[Start]:
    """Returns what one worker's log tells of each start of the program, in order; at least one.

    `loss`: finds losses in lines, with groups `step` and `loss`; else our own lines are looked for. What was complete
    in the bucket when a start was stopped, no log knows: `newest` is None.
    """
    starts = [_Reading()]
    for line in lines:
        told = line.rstrip("\r\n")
        at = None
        if prefix := _PREFIX.search(told):
            told, at = prefix["told"], int(prefix[1]) * 3600 + int(prefix[2]) * 60 + float(prefix[3])
        if starts[-1].began and any(one.search(told) for one in (_NOTHING, _RESTORING, _WE_BEGIN)):
            starts.append(_Reading())
        _hear(starts[-1], told, at)
        if found := (loss or _OUR_LOSS).search(told):
            _hear_loss(starts[-1], found)
    return [one.over() for one in starts]


def _hear(start: _Reading, told: str, at: float | None) -> None:
    """`at`: seconds of the day; None: the line does not say."""
    if found := _SAVED.search(told) or _WE_SAVED.search(told):
        step, seconds = int(found[1]), _number(found[2])
        if seconds is not None:
            start.saves[step] = max(seconds, start.saves.get(step, 0.0))
            start.began = True
    elif found := _WE_RESTORED.search(told):
        _hear_our_restore(start, int(found[1]), _number(found[2]))
    elif (found := _RESTORING.search(told)) and at is not None:
        start.restoring[int(found[1])] = at
    elif found := _RESTORED.search(told):
        step = int(found[1])
        start.resumed, start.began = step, True
        began = start.restoring.pop(step, None)
        if began is not None and at is not None:
            start.restores.append(round((at - began) % _DAY_S, 6))


def _hear_our_restore(start: _Reading, step: int, seconds: float | None) -> None:
    """One that comes first is what the start went on from; those at the end are restores like others."""
    if seconds is not None:
        start.restores.append(seconds)
        if not start.began:
            start.resumed = step
        start.began = True


def _hear_loss(start: _Reading, found: re.Match[str]) -> None:
    value = _number(found["loss"])
    if value is not None:
        start.losses[int(found["step"])] = value
        start.began = True


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
