"""What differs between a thing and what is wanted of it, where the API's documents have lists of named parts."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tasks.cloud.things import Thing
from tasks.config.environment_file import load_environment
from tasks.stages.environment_changes import _enough
from tasks.targets.cluster_requests import CPU_POOL
from tasks.targets.environment_diff import Difference, differences, leaves, step_for
from tasks.targets.environment_wanted import Wanted, wanted

ROOT = Path(__file__).parents[3]
FIELDS = {
    f"{one} {path}": (one, path, value)
    for one in wanted(load_environment(ROOT / "configs/environments/team.yaml"), "proj")
    if not one.kind.endswith("role")  # who has a role is in a policy, which has no other fields
    and one.kind != "kubernetes account"  # compared inside the cluster
    for path, value in leaves(one.fields)
    if (one.name, path)
    != (CPU_POOL, "initial_node_count")  # they grow: how many there were first is of no matter
}

PODS = {"rangeName": "pods", "ipCidrRange": "10.4.0.0/14"}
SERVICES = {"rangeName": "services", "ipCidrRange": "10.8.0.0/20"}
OTHER = {"rangeName": "of-others", "ipCidrRange": "10.12.0.0/14"}


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ([PODS, SERVICES], []),
        ([OTHER, SERVICES, PODS], []),
        (
            [OTHER, PODS],
            [
                'secondaryIpRanges.1.rangeName: nothing → "services"',
                'secondaryIpRanges.1.ipCidrRange: nothing → "10.8.0.0/20"',
            ],
        ),
        (
            [SERVICES, {**PODS, "ipCidrRange": "10.4.0.0/16"}],
            ['secondaryIpRanges.0.ipCidrRange: "10.4.0.0/16" → "10.4.0.0/14"'],
        ),
    ],
)
def test_named_ranges_are_compared_by_their_names(there: Any, told: list[str]) -> None:
    wanted = Wanted("subnetwork", "proj/region", "sub", {"secondaryIpRanges": [PODS, SERVICES]})
    assert [str(one) for one in differences(wanted, {"secondaryIpRanges": there}, ())] == told


@pytest.mark.parametrize(("existing", "do"), [(True, "use"), (False, "refuse")])
def test_what_is_named_as_being_there_is_used_whoever_made_it(existing: bool, do: str) -> None:
    one = Wanted("network", "proj", "net", existing=existing)
    assert step_for(one, Thing("1", {}), ours=False, in_place=(), whose="environment-other_proj-e1").do == do


def test_a_range_is_not_added_where_its_addresses_are_of_another() -> None:
    """A range that the file calls otherwise by now is no new one: the subnetwork has its addresses already."""
    wanted = Wanted("subnetwork", "proj/region", "sub", {"secondaryIpRanges": [PODS, SERVICES]})
    renamed = [{**PODS, "rangeName": "before"}, OTHER]
    found = differences(wanted, {"secondaryIpRanges": renamed}, ("secondaryIpRanges",))
    assert [(one.path.partition(".")[2], one.can) for one in found] == [
        ("0.rangeName", False),
        ("0.ipCidrRange", False),
        ("1.rangeName", True),
        ("1.ipCidrRange", True),
    ]


@pytest.mark.parametrize(
    ("there", "said", "enough"),
    [
        ("1.33.4-gke.1245000", "1.33", True),
        ("1.33.4-gke.1245000", "1.33.4", True),
        ("1.33.4-gke.1245000", "1.33.4-gke.1245000", True),
        ("1.33.4-gke.1245000", "latest", True),
        ("1.33.4-gke.1245000", "1.3", False),
        ("1.33.4-gke.1245000", "1.33.4-gke.1", False),
        ("1.34.1-gke.1", "1.33", False),
    ],
)
def test_a_version_that_was_said_in_short_is_any_of_its_kind(there: str, said: str, enough: bool) -> None:
    assert (
        _enough(
            Wanted("cluster", "proj/us-east5", "mine"),
            Difference("initial_cluster_version", there, said, can=False),
        )
        is enough
    )


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_that_is_asked_for_shows_when_it_is_another_and_nothing_else_does(field: str) -> None:
    """Of a part of a list that is known by its name, another name shows as the whole part that is missing."""
    one, path, value = FIELDS[field]
    assert [each for each in differences(one, one.fields, ()) if not _enough(one, each)] == []
    shown = [
        each for each in differences(one, another(one.fields, path, value), ()) if not _enough(one, each)
    ]
    if len(shown) > 1:
        above = path.rpartition(".")[0]
        assert path.endswith(("rangeName", "name", "cidr_block")) and above
        assert {each.there for each in shown} == {None}
        assert all(each.path.startswith(f"{above}.") for each in shown)
    else:
        assert [each.path for each in shown] == [path]


def another(fields: Any, path: str, value: Any) -> Any:
    """Returns the same fields with another value at a path."""
    changed: Any = deepcopy(fields)
    *above, last = (int(part) if part.isdecimal() else part for part in path.split("."))
    into = changed
    for part in above:
        into = into[part]
    if isinstance(value, bool):
        into[last] = not value
    elif isinstance(value, int):
        into[last] = value + 1
    elif isinstance(value, list):
        into[last] = [*value, "other"]
    else:
        into[last] = "another"
    return changed
