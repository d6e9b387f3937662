"""Reads and judges `disruption:` of a benchmark: whom to kill and when, and whether the benchmark can go on then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.contract.disruption import ALL, MOMENTS, SIGNALS, Disruption
from runtime.contract.errors import Place
from runtime.contract.findings import Findings, told
from runtime.contract.generators import RESUMING, find
from runtime.contract.suite import BenchmarkSpec, Suite
from runtime.contract.yamlfile import Entry, Node

DISRUPTION_KEYS = ("worker", "at_step", "moment", "after_s", "signal")

_EXAMPLE = "write disruption: {worker: 0, at_step: 3}"


def read_disruption(node: Node, found: Findings) -> Disruption | None:
    """Returns the disruption, or None when it had to be refused."""
    entries = found.mapping(node, "disruption", _EXAMPLE)
    if entries is None:
        return None
    found.known_keys(entries, DISRUPTION_KEYS, "a disruption")
    at_step, after_s = entries.get("at_step"), entries.get("after_s")
    if (at_step is None) == (after_s is None):
        what = "a disruption says neither at_step nor after_s"
        if at_step and after_s:
            what = "a disruption says both at_step and after_s"
        found.error(node.place, what, "it happens once in each repeat", "give one of the two")
    if "moment" in entries and at_step is None:
        found.error(entries["moment"].place, "moment needs at_step", fix="give at_step, or remove moment")
    values: dict[str, Any] = {
        "worker": _worker(entries["worker"].node, found) if "worker" in entries else None,
        "at_step": found.integer(at_step.node, "at_step", 0) if at_step else None,
        "after_s": found.seconds(after_s.node, "after_s") if after_s else None,
        "moment": _one_of(entries, "moment", MOMENTS, found),
        "signal": _one_of(entries, "signal", SIGNALS, found),
    }
    return Disruption(**{name: value for name, value in values.items() if value is not None})


def _worker(node: Node, found: Findings) -> int | str | None:
    if node.value == ALL:
        return ALL
    if isinstance(node.value, str):
        found.error(
            node.place, f"worker must be a number or all, not {told(node.value)}", fix="write 0, or all"
        )
        return None
    return found.integer(node, "worker", 0)


def _one_of(entries: Mapping[str, Entry], key: str, allowed: tuple[str, ...], found: Findings) -> str | None:
    if key not in entries:
        return None
    value = entries[key].node.value
    if value in allowed:
        return str(value)
    words = " or ".join(allowed)
    found.error(
        entries[key].node.place, f"{key} must be {words}, not {told(value)}", fix=f"write {allowed[0]}"
    )
    return None


def check_disruptions(suite: Suite, found: Findings) -> None:
    """Refuses disruptions after which a benchmark could not go on, or which could never happen."""
    for item in suite.benchmarks:
        if item.disruption is not None and item.disruption_place is not None:
            _check(suite, item, item.disruption, item.disruption_place, found)


def _check(suite: Suite, item: BenchmarkSpec, disruption: Disruption, place: Place, found: Findings) -> None:
    name = item.generator.rpartition(".")[2]
    generator = find(item.generator)
    if generator is not None and not (generator.resumes and item.implementation == "native"):
        *others, last = sorted(one.name.rpartition(".")[2] for one in RESUMING)
        able = f"{', '.join(others)} or {last}"
        why = (
            "it cannot go on in the middle"
            if not generator.resumes
            else "Orbax's own cannot go on in the middle"
        )
        found.error(
            place, f"{name} cannot be disrupted", why, f"use slicebench's {able}, or a class of your own"
        )
        return
    own_data = generator is not None and generator.own_data
    for index, checkpoint in enumerate(() if own_data else suite.checkpoints):
        if checkpoint.spec is None:
            where = suite.checkpoint_places[index] if index < len(suite.checkpoint_places) else place
            why = "each step saves data of its own, so that the wrong step is noticed"
            found.error(
                where, f"a disrupted {name} needs a checkpoint with spec", why, "write spec: under it"
            )
    if generator is not None and disruption.at_step is not None:
        _check_step(item, disruption, disruption.at_step, place, found)


def _check_step(
    item: BenchmarkSpec, disruption: Disruption, step: int, place: Place, found: Findings
) -> None:
    """A step must be left to do after the restart, and one must have been saved before."""
    fewest = min(steps for steps in item.options["train_steps"] if isinstance(steps, int))
    if disruption.moment == "saving":
        if step < 1:
            why = "nothing is saved yet from which it could go on"
            found.error(place, "a disruption while step 0 is being saved", why, "write at_step: 1 or more")
        if step >= fewest:
            found.error(place, f"step {step} is never begun: train_steps is {fewest}", fix=_more(step + 1))
        return
    widest = max(steps for steps in item.options["save_interval_steps"] if isinstance(steps, int))
    saved = -(-step // max(1, widest)) * max(1, widest)
    if saved >= fewest - 1:
        why = f"train_steps is {fewest}, and the first step saved from step {step} on is {saved}"
        what = "nothing would be left to do after the restart"
        found.error(place, what, why, _more(saved + 2))


def _more(steps: int) -> str:
    return f"set train_steps to {steps} or more, or at_step lower"
