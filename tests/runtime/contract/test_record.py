"""Files of a newer version are read, damaged ones are not taken for whole."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from runtime.contract.record import record_of


@dataclass(frozen=True)
class Thing:
    """What stands in for what files hold."""

    name: str
    size: int = 0
    parts: tuple[str, ...] = ()


def test_keys_that_only_a_newer_version_knows_are_left_out() -> None:
    assert record_of(Thing, {"name": "a", "size": 2, "colour": "red"}) == Thing("a", 2)


def test_what_is_made_already_stands() -> None:
    assert record_of(Thing, {"name": "a", "parts": ["b"]}, parts=("b",)) == Thing("a", 0, ("b",))


@pytest.mark.parametrize("content", [{}, {"size": 2, "colour": "red"}, [], None, "name", 1])
def test_what_lacks_a_part_is_damaged(content: object) -> None:
    with pytest.raises(TypeError, match="name|JSON object"):
        record_of(Thing, content)
