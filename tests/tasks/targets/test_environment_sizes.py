"""How many nodes a pool of an environment is to have in each zone, beside how many it has."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.targets.environment_sizes import most_of, nodes_a_zone, unlike_size
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
        (pool(), {"a": 5}, "size: 5 → 2 stays"),
        (pool(), {"a": 2, "b": 2}, ""),
        (pool(), {"a": 1, "b": 2}, 'size: {"a": 1, "b": 2} → {"a": 2, "b": 2}'),
        (pool(), {"a": 1, "b": 3}, 'size: {"a": 1, "b": 3} → {"a": 2, "b": 2} stays'),
        (pool(total_min_node_count=0), {"a": 0}, ""),
        (pool(total_min_node_count=0), {"a": 10}, "size: 10 → 9 stays"),
        (pool(total_min_node_count=3), {"a": 9}, ""),
        (pool(total_min_node_count=3), {"a": 7, "b": 5}, 'size: {"a": 7, "b": 5} → 9 stays'),
        (pool(total_min_node_count=3), {"a": 2}, "size: 2 → 3"),
        (pool(total_min_node_count=3), {"a": 0, "b": 3}, ""),
        (pool(total_min_node_count=3), {"a": 0, "b": 2}, 'size: {"a": 0, "b": 2} → {"a": 2, "b": 2}'),
        (pool(total_min_node_count=5), {"a": 0, "b": 4}, 'size: {"a": 0, "b": 4} → {"a": 3, "b": 3} stays'),
    ],
)
def test_what_nobody_but_a_person_does_to_a_size_is_a_difference(
    one: Wanted, there: dict[str, int], told: str
) -> None:
    """Only those in which no node has to go are mended: what runs there is other people's."""
    found = unlike_size(one, there, 9 if "autoscaling" in one.fields else None)
    shown = f"{found}{'' if found.can else ' stays'}" if found else ""
    assert shown == told


def test_a_pool_grows_by_itself_to_what_all_its_zones_have() -> None:
    scaling = {"enabled": True, "total_max_node_count": 7}
    each = {"enabled": True, "max_node_count": 4}
    asked = [{"autoscaling": scaling}, {"autoscaling": each}, {"autoscaling": {"enabled": True}}, {}]
    assert [most_of(one, 3) for one in asked] == [7, 12, None, None]


def test_sizes_are_asked_for_by_zone() -> None:
    assert nodes_a_zone(pool(), 3) == 2
    assert nodes_a_zone(pool(total_min_node_count=4), 3) == 2
