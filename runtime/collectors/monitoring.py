"""What JAX and Orbax tell through jax.monitoring: every event counted, summed, and credited to its block."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runtime.collectors.origins import Origins
from runtime.measure import BETWEEN, SETUP, Collector, Operation, Probe, Value

COMPILE_COUNT = "jax/core/compile/backend_compile_count"
"""Told for every block, also when it is zero: a compile storm must not look like a new metric."""

_GIB = 2.0**30
_DAY_S = 86_400.0


@dataclass
class _Tally:
    """All occurrences of one tag within one block."""

    count: int = 0
    total: float = 0.0


@dataclass(frozen=True)
class _Tag:
    kind: str  # event, duration or scalar
    name: str


class Monitoring(Collector):
    """Listens for as long as it lives.

    An event is credited to the block in which the thread that tells of it was started, directly or by a
    thread of that block: the commit of an asynchronous save belongs to the save, although it ends while
    another block is open. Told by the main thread, or by a thread from before this repeat, it belongs to the
    innermost open block. Since background work outlives its block, values are told at the end of the repeat.
    """

    def __init__(self) -> None:
        from jax import monitoring

        self._lock = threading.Lock()
        self._tallies: dict[tuple[Operation, _Tag], _Tally] = {}
        self._measured: list[Operation] = []
        self._open: list[Operation] = []
        self._outside = SETUP
        self._origins: Origins[Operation] = Origins(self._innermost)
        monitoring.register_event_listener(self._on_event)
        monitoring.register_event_duration_secs_listener(self._on_duration)
        monitoring.register_scalar_listener(self._on_scalar)

    def start(self, operation: Operation) -> Probe:
        """Opens a block for what fires from now on."""
        self._measured.append(operation)
        self._open.append(operation)
        return _MonitoringProbe(self._open)

    def begin_repeat(self) -> None:
        """What came before this repeat stays credited to `setup`."""
        self._origins.forget()
        self._outside = BETWEEN

    def end_repeat(self) -> Iterable[Value]:
        """Returns what every block of the repeat, and the time around them, saw."""
        with self._lock:
            tallies, self._tallies = self._tallies, {}
            self._outside = SETUP
        measured, self._measured = self._measured, []
        self._origins.forget()
        return [*_values(tallies), *_uncompiled(tallies, measured)]

    def close(self) -> None:
        """Stops to listen."""
        from jax import monitoring

        monitoring.unregister_event_listener(self._on_event)
        monitoring.unregister_event_duration_listener(self._on_duration)
        monitoring.unregister_scalar_listener(self._on_scalar)
        self._origins.close()

    def _innermost(self) -> Operation:
        return self._open[-1] if self._open else self._outside

    def _on_event(self, event: str, **labels: str | int) -> None:
        self._tell(_Tag("event", event), 1.0)

    def _on_duration(self, event: str, duration_secs: float, **labels: str | int) -> None:
        self._tell(_Tag("duration", event), duration_secs)

    def _on_scalar(self, event: str, value: float | int, **labels: str | int) -> None:
        if not _is_a_date(value):
            self._tell(_Tag("scalar", event), float(value))

    def _tell(self, tag: _Tag, value: float) -> None:
        operation = self._origins.of_this_thread() or self._innermost()
        with self._lock:
            tally = self._tallies.setdefault((operation, tag), _Tally())
            tally.count += 1
            tally.total += value


class _MonitoringProbe:
    def __init__(self, opened: list[Operation]) -> None:
        self._opened = opened

    def stop(self) -> None:
        self._opened.pop()

    def values(self) -> Iterable[Value]:
        return ()


def _is_a_date(value: float) -> bool:
    """Whether a scalar is a moment, in seconds or milliseconds since the epoch: nothing to compare."""
    now = time.time()
    return abs(value - now) < _DAY_S or abs(value / 1000 - now) < _DAY_S


def _values(tallies: dict[tuple[Operation, _Tag], _Tally]) -> Iterator[Value]:
    for (operation, tag), tally in tallies.items():
        base = tag.name.lstrip("/")
        if tag.kind == "event":
            yield Value(f"{base}_count", tally.count, "count", operation)
        elif tag.kind == "duration":
            base = re.sub(r"(_duration)?_secs?$|_duration$", "", base)
            yield Value(f"{base}_count", tally.count, "count", operation)
            yield Value(f"{base}_s", tally.total, "s", operation)
        else:
            yield from _scalar(base, tally, operation)


def _scalar(base: str, tally: _Tally, operation: Operation) -> Iterator[Value]:
    """Sums amounts, averages rates and ratios; Orbax's gigabytes (2^30) become bytes."""
    unit, factor = "count", 1.0
    if base.endswith("gbytes_per_sec"):
        base, unit, factor = f"{base.removesuffix('gbytes_per_sec')}bytes_per_s", "bytes/s", _GIB
    elif base.endswith(("gbytes", "_gb")):
        base, unit, factor = f"{re.sub('(gbytes|gb)$', '', base)}bytes", "bytes", _GIB
    elif base.endswith("ratio"):
        unit = "1"
    is_rate = unit in ("bytes/s", "1")
    yield Value(f"{base}_events", tally.count, "count", operation)
    amount = tally.total / tally.count if is_rate else tally.total
    yield Value(f"{base}_mean" if is_rate else f"{base}_sum", amount * factor, unit, operation)


def _uncompiled(tallies: Iterable[tuple[Operation, _Tag]], measured: list[Operation]) -> Iterator[Value]:
    """A zero for every block in which nothing was compiled."""
    tag = _Tag("duration", f"/{COMPILE_COUNT.removesuffix('_count')}_duration")
    compiled = {operation for operation, told in tallies if told == tag}
    for operation in measured:
        if operation not in compiled:
            yield Value(COMPILE_COUNT, 0, "count", operation)
