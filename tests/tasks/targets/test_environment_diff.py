"""What differs between a thing and what is wanted of it, where the API's documents have lists of named parts."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.stages.environment_changes import _enough
from tasks.targets.environment_diff import Difference, differences
from tasks.targets.environment_wanted import Wanted

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
