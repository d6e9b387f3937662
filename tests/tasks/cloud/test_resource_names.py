"""Names of what we make: legal, short enough, the same each time, and different for different things."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tasks.cloud.resource_names import name_of, problem_with

_LEASES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?-e[1-9]", fullmatch=True)


@given(_LEASES, st.sampled_from(["", "s0", "s11", "r2"]), st.integers(30, 63))
def test_a_name_is_legal_and_stable(lease: str, part: str, longest: int) -> None:
    name = name_of(lease, part, longest)
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= longest
    assert name == name_of(lease, part, longest)
    assert problem_with(name, longest) is None


def test_long_names_that_differ_at_their_end_stay_different() -> None:
    names = {name_of("a" * 63 + f"-e{epoch}", part, 40) for epoch in range(1, 4) for part in ("s0", "s1")}
    assert len(names) == 6


def test_a_chosen_name_is_refused_with_a_better_one() -> None:
    assert "My_TPU" in str(problem_with("My_TPU"))
    assert "'my-tpu'" in str(problem_with("My_TPU"))
    assert "70 characters" in str(problem_with("a" * 70))
    assert problem_with("my-tpu") is None
