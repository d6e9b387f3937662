"""What stands beside the workers of a JobSet that is followed: what it says, each end of it, and that it is never up.

How it is, its pods say (kube_standing.py). An end is told with the last line before it, once that is read.
"""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from runtime.contract.counting import counted
from tasks.cloud.kubernetes_told import Line, LogEnd
from tasks.targets.kube_objects import Object, uid_of
from tasks.targets.kube_standing import Standing, standing
from tasks.targets.types import NeverUp, SidecarLine, State

SIDECAR = "sidecar"
"""The State that says that what stands beside a worker has ended."""

_STUCK_S = 120.0
"""How long one may wait for what does not come by itself, such as its image."""
_LAST_LINE_S = 5.0
"""How long is waited for what it said last."""
_TOLD = 3
"""Of so many pods it is told each time: where a key is denied it is all of them."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass
class _Known:
    """Of one container: how it was last, what it said last, which of its starts are read to their end, since when it
    waits for what does not come by itself.
    """

    seen: Standing
    last_line: dict[int, str] = field(default_factory=dict)
    read: int = -1
    stuck_since: float | None = None


@dataclass
class _Owed:
    """An end that is to be told, once what was said before it is read, or at a time by our clock."""

    one: Standing
    until: float


class Beside:
    """What is known of it, in all pods of one JobSet. `name`: the container whose log is read; empty: none is."""

    def __init__(self, jobset: str, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._jobset, self.name, self._clock = jobset, name, clock
        self._known: dict[tuple[str, str], _Known] = {}
        self._owed: list[_Owed] = []
        self._told: Counter[tuple[str, int]] = Counter()
        self._cursors: dict[int, int] = {}
        self._reading: set[str] = set()

    def changed(self, pod: Object, gone: bool) -> Iterator[State]:
        """Takes news of a pod; yields ends of what stands there."""
        if gone:
            self._forget(uid_of(pod))
            return
        stands = list(standing(pod))
        if not stands:
            self._no_more_awaited(uid_of(pod))
        for one in stands:
            key = (one.uid, one.container)
            known = self._known.setdefault(key, _Known(replace(one, ends=0)))
            # Once it was, it is no obstacle: the workers' image may take longer than it lives.
            one = replace(one, was_up=one.was_up or one.up or known.seen.was_up)
            ended, known.seen = one.ends > known.seen.ends, one
            if not one.stuck():
                known.stuck_since = None
            elif known.stuck_since is None:
                known.stuck_since = self._clock()
            if ended:
                self._owed.append(_Owed(one, self._clock() + _LAST_LINE_S))
        yield from self._due()

    def said(self, line: Line, worker: int) -> SidecarLine:
        """Returns the event of a line. Its cursor counts the nanoseconds since 1970, by the clock of the pod's node."""
        source = line.source
        self._reading.add(source.uid)
        if (known := self._known.get((source.uid, source.container))) is not None and line.text.strip():
            known.last_line[source.restart] = line.text.strip()
        cursor = max(_nanoseconds(line.at), self._cursors.get(worker, 0) + 1)  # several may be of one moment
        self._cursors[worker] = cursor
        return SidecarLine(worker, cursor, line.text)

    def read(self, end: LogEnd) -> Iterator[State]:
        """Takes that the log of a start is read to its end."""
        source = end.source
        self._reading.discard(source.uid)
        if (known := self._known.get((source.uid, source.container))) is not None:
            known.read = max(known.read, source.restart)
        yield from self._due()

    def beat(self) -> Iterator[State]:
        """Yields what waited for its last line for too long. Raises NeverUp."""
        yield from self._due()
        owed = {(one.one.uid, one.one.container) for one in self._owed}
        for key, known in self._known.items():
            if key in owed:
                continue
            why = known.seen.never_up() or self._stuck_too_long(known)
            if why:
                raise NeverUp(
                    f"JobSet {self._jobset} can never begin: {known.seen.place}: {why}{_last(known, known.seen)}: "
                    "fix that in the target file, and run again"
                )

    @property
    def is_said(self) -> bool:
        """Whether all that was begun to be read is read to its end."""
        return not self._reading

    def _stuck_too_long(self, known: _Known) -> str:
        since = known.stuck_since
        return known.seen.stuck() if since is not None and self._clock() - since > _STUCK_S else ""

    def _due(self) -> Iterator[State]:
        now, waiting = self._clock(), []
        for owed in self._owed:
            known = self._known.get((owed.one.uid, owed.one.container))
            follows = owed.one.container == self.name and known is not None
            if follows and known is not None and known.read < owed.one.ends - 1 and now < owed.until:
                waiting.append(owed)
            elif (state := self._state(owed.one, known)) is not None:
                yield state
        self._owed = waiting

    def _state(self, one: Standing, known: _Known | None) -> State | None:
        """Returns what is told of an end; None where it was told of others of the same."""
        self._told[one.container, one.ends] += 1
        number = self._told[one.container, one.ends]
        if number > _TOLD:
            return None
        again = "the cluster starts it again; what goes through it fails meanwhile"
        told = f"{one.place} {one.end}, {counted(one.ends, 'end')} by now: {again}"
        if not one.was_up:
            told = f"{one.place} {one.end} before it was up, {counted(one.ends, 'end')} by now"
        more = "; further pods like this are not reported" if number == _TOLD else ""
        return State(SIDECAR, one.waits or "ended", f"{told}{_last(known, one)}{more}")

    def _no_more_awaited(self, uid: str) -> None:
        """What a pod that is to go waited for is no obstacle: another one takes its place."""
        for (of, _), known in self._known.items():
            if of == uid:
                known.stuck_since = None

    def _forget(self, uid: str) -> None:
        self._known = {key: known for key, known in self._known.items() if key[0] != uid}
        self._owed = [owed for owed in self._owed if owed.one.uid != uid]
        self._reading.discard(uid)


def _last(known: _Known | None, one: Standing) -> str:
    """Returns what it said last before an end, to follow a sentence."""
    said = known.last_line.get(one.ends - 1, "") if known is not None else ""
    return f": it said last: {said[:500]}" if said else ""


def _nanoseconds(at: str) -> int:
    """Returns a time of a log in nanoseconds since 1970; 0 for what is none."""
    whole, _, fraction = at.removesuffix("Z").partition(".")
    try:
        began = datetime.datetime.fromisoformat(f"{whole}+00:00") - _EPOCH
        return int(began.total_seconds()) * 10**9 + int(fraction[:9].ljust(9, "0"))
    except ValueError:
        return 0
