"""Reads how often a suite wants its points measured: `repeats`, beside Orbax's `num_repeats`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.contract.findings import Findings, told
from runtime.contract.repeats import UNTIL, Adaptive
from runtime.contract.yamlfile import Entry, Node

REPEATS_KEYS = ("min", "max", "until", "time_s")
ENOUGH = 6
"""The fewest values of which an interval holds the median with at least 95 %."""

_EXAMPLE = 'write repeats: {max: 30, until: "2%"}'
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def read_repeats(entries: Mapping[str, Entry], num_repeats: int, found: Findings) -> Adaptive | None:
    """Reads `repeats` of a suite; None where it has none. What Orbax's own runner does, `num_repeats`, is the least."""
    if "repeats" not in entries:
        return None
    node = entries["repeats"].node
    given = found.mapping(node, "repeats", _EXAMPLE)
    if given is None:
        return None
    found.known_keys(given, REPEATS_KEYS, "repeats")
    if "max" not in given:
        found.error(node.place, "repeats has no max", "a noisy machine may never be quiet", _EXAMPLE)
    if "min" in given and "num_repeats" in entries:
        what = "num_repeats and repeats.min are both given"
        found.error(given["min"].place, what, "both say how often at least", "keep one of them")
    least = num_repeats if "num_repeats" in entries else ENOUGH
    least = (found.integer(given["min"].node, "min", 1) if "min" in given else least) or least
    most = found.integer(given["max"].node, "max", 1) if "max" in given else None
    until = _until(given["until"].node, found) if "until" in given else UNTIL
    time_s = found.seconds(given["time_s"].node, "time_s") if "time_s" in given else None
    if most is not None and most < least:
        what = f"repeats are at most {most} and at least {least}"
        found.error(given["max"].place, what, fix=f"give a max of at least {least}")
    return Adaptive(least, max(most or least, least), until or UNTIL, time_s)


def _until(node: Node, found: Findings) -> float | None:
    """Reads 2%, or the same as a fraction: 0.02."""
    value = node.value
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    fraction = float(match[1]) / 100 if match else value
    if isinstance(fraction, float) and 0 < fraction < 1:
        return fraction
    what = f"until must be how far an interval may reach to either side, not {told(value)}"
    found.error(node.place, what, fix="write 2%, or 0.02")
    return None
