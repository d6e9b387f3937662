"""Each small case about a JobSet: its state with reason and cause, and the troubles that are explained of it."""

from __future__ import annotations

import pytest

from tasks.explain.kube_rules import KUBE_RULES, kube_troubles
from tests.tasks.kube_cases import case, case_names


@pytest.mark.parametrize("name", case_names())
def test_the_state_of_a_case(name: str) -> None:
    one = case(name)
    found, expect = one.found, one.expect
    state, _, reason = expect["state"].partition(" ")
    assert (found.state, found.reason) == (state, reason or found.reason)
    assert expect.get("message", "") in found.message
    assert (found.cause.kind if found.cause else None) == expect.get("cause")
    assert expect.get("cause_text", "") in str(found.cause)
    assert found.attempt == expect.get("attempt", 1)
    assert str(found.position) == expect.get("position", str(found.position))


@pytest.mark.parametrize("name", case_names())
def test_the_troubles_of_a_case(name: str) -> None:
    one = case(name)
    troubles = kube_troubles(one.scene())
    assert [trouble.name for trouble in troubles] == one.expect.get("troubles", [])
    if troubles:
        first = troubles[0]
        assert one.expect.get("what", "") in first.what
        assert first.evidence and first.next
        assert all(command.startswith(("slicebench ", "kubectl ")) for command in first.next)
        assert one.expect.get("next", "") in "; ".join(first.next)
        shown = " | ".join(f"{line.place}: {line.text}" for line in first.evidence)
        for text in one.expect.get("evidence", ()):
            assert text in shown


def test_every_rule_has_a_case() -> None:
    silent = {
        rule.__name__ for rule in KUBE_RULES if not any(rule(case(name).scene()) for name in case_names())
    }
    assert silent == set()
