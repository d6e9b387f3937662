"""How many nodes a pool of an environment is to have in each zone, beside how many it has."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.targets.environment_sizes import nodes_a_zone, unlike_size
from tasks.targets.environment_wanted import Wanted


def pool(**scaling: int) -> Wanted:
    fields: dict[str, Any] = {"initial_node_count": 2}
    if scaling:
        fields["autoscaling"] = {"enabled": True, **scaling}
    return Wanted("node pool", "proj/us-east5/mine", "cpu", fields)


@pytest.mark.parametrize(
    ("one", "there", "told"),
    [
        (pool(), {"a": 2}, ""),
        (pool(), {"a": 0}, "size: 0 → 2"),
        (pool(), {"a": 5}, "size: 5 → 2"),
        (pool(), {"a": 2, "b": 2}, ""),
        (pool(), {"a": 1, "b": 3}, 'size: {"a": 1, "b": 3} → {"a": 2, "b": 2}'),
        (pool(total_min_node_count=0), {"a": 0}, ""),
        (pool(total_min_node_count=3), {"a": 9}, ""),
        (pool(total_min_node_count=3), {"a": 2}, "size: 2 → 3"),
        (pool(total_min_node_count=3), {"a": 0, "b": 3}, ""),
        (pool(total_min_node_count=3), {"a": 0, "b": 2}, 'size: {"a": 0, "b": 2} → {"a": 2, "b": 2}'),
    ],
)
def test_what_nobody_but_a_person_does_to_a_size_is_a_difference(
    one: Wanted, there: dict[str, int], told: str
) -> None:
    assert str(unlike_size(one, there) or "") == told


def test_sizes_are_asked_for_by_zone() -> None:
    assert nodes_a_zone(pool(), 3) == 2
    assert nodes_a_zone(pool(total_min_node_count=4), 3) == 2
