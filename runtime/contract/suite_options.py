"""Reads the options of one benchmark: each a value, or a list of values to try in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.contract.findings import Findings, told
from runtime.contract.generator import Generator
from runtime.contract.options import REQUIRED, Option
from runtime.contract.yamlfile import Node

_WORDS = {
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "policies": "a mapping",
}
POLICY_KEYS = {
    "preservation_policies": ("policy_type", "n", "interval_secs", "interval_steps", "custom_steps"),
    "save_decision_policies": ("policy_type", "interval_steps", "custom_steps", "minimum_interval_secs"),
}
POLICY_TYPES = {
    "preservation_policies": ("LatestN", "EveryNSeconds", "EveryNSteps", "CustomSteps"),
    "save_decision_policies": (
        "FixedIntervalPolicy",
        "SpecificStepsPolicy",
        "ContinuousCheckpointingPolicy",
        "InitialSavePolicy",
        "PreemptionSavePolicy",
    ),
}


def read_options(
    node: Node, generator: Generator | None, name: str, found: Findings
) -> Mapping[str, tuple[Any, ...]]:
    """Returns the values of each option: all of a known class in field order, those given of a user's class."""
    entries = found.mapping(node, "options", "write options: {} to take every default")
    if entries is None:
        return {}
    axes = {entry.key: _axis(entry.key, entry.node, generator, found) for entry in entries.values()}
    _check_digests(node, found)
    if generator is None:
        return axes
    short = name.rpartition(".")[2]
    found.known_keys(entries, [option.name for option in generator.options], f"the options of {short}")
    for option in generator.options:
        if option.default == REQUIRED and option.name not in axes:
            found.error(node.place, f"{short} needs option {option.name}", fix=f"write {option.name}: …")
    return {option.name: axes.get(option.name, (option.default,)) for option in generator.options}


def _axis(name: str, node: Node, generator: Generator | None, found: Findings) -> tuple[Any, ...]:
    option = next((o for o in generator.options if o.name == name), None) if generator else None
    listed = isinstance(node.value, list)
    if listed and not node.items:
        found.error(
            node.place, f"{name} is an empty list", "it makes zero benchmarks", "list a value, or remove it"
        )
    if not listed and option is not None and option.kind == "policies":
        found.error(node.place, f"{name} must be a list", fix="write one item for each set of policies")
        return (node.value,)
    values: list[Any] = []
    for item in node.items if listed else (node,):
        value = _value(name, item, option, found)
        if any(_same(value, other) for other in values):
            why = "the same benchmark would run twice"
            found.error(item.place, f"{name} lists {told(value)} twice", why, "remove one of the two")
        values.append(value)
    return tuple(values)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _value(name: str, item: Node, option: Option | None, found: Findings) -> Any:
    """Returns one value of an option, checked and brought to its type when the option is known."""
    value = item.value
    if isinstance(value, list):
        why = "a list means: try each value in turn"
        found.error(item.place, f"{name} holds a list within a list", why, "write single values in the list")
        return value
    if option is None or (value is None and option.nullable):
        return value
    if option.kind == "policies":
        _check_policies(name, item, found)
        return value
    if not _fits(value, option):
        words = _WORDS[option.kind] + (" or null" if option.nullable else "")
        unquote = ", without quotes" if isinstance(value, str) else ""
        found.error(item.place, f"{name} must be {words}, not {told(value)}", fix=f"write {words}{unquote}")
    return float(value) if option.kind == "float" and type(value) is int else value


def _fits(value: Any, option: Option) -> bool:
    match option.kind:
        case "bool":
            return isinstance(value, bool)
        case "int":
            return type(value) is int
        case "float":
            return type(value) in (int, float)
        case _:
            return isinstance(value, str)


def _check_digests(node: Node, found: Findings) -> None:
    capture, reference = node.child("capture_digests_path"), node.child("reference_digests_path")
    if capture and reference and capture.value and reference.value:
        what = "capture_digests_path and reference_digests_path are both given"
        found.error(capture.place, what, "a run captures digests or compares with them", "keep one of them")


def _check_policies(name: str, item: Node, found: Findings) -> None:
    entries = found.mapping(item, name)
    if entries is None:
        return
    found.known_keys(entries, (*POLICY_KEYS, "expected_preserve_checkpoints"), name)
    for group, keys in POLICY_KEYS.items():
        node = item.child(group)
        if node is None:
            found.error(item.place, f"{name} needs {group}", fix=f"write {group}: with a list of policies")
            continue
        for policy in found.sequence(node, group, "write a list of policies") or ():
            _check_policy(policy, group, keys, found)


def _check_policy(policy: Node, group: str, keys: tuple[str, ...], found: Findings) -> None:
    entries = found.mapping(policy, "a policy", f"write policy_type: {POLICY_TYPES[group][0]}")
    if entries is None:
        return
    found.known_keys(entries, keys, "a policy")
    kind = policy.child("policy_type")
    if kind is None or kind.value not in POLICY_TYPES[group]:
        what = "a policy has no policy_type" if kind is None else f"unknown policy_type {told(kind.value)}"
        found.error((kind or policy).place, what, fix=f"write one of {', '.join(POLICY_TYPES[group])}")
