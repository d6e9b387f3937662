"""In which order an environment goes: first what needs others, so that nothing is refused for being in use."""

from __future__ import annotations

import pytest

from tasks.stages.environment import down, up
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment

FIRST_AND_THEN = [
    ("DeleteCluster", "DeleteRouter"),
    ("DeleteCluster", "DeleteFirewall"),
    ("DeleteCluster", "SetProjectPolicy"),
    ("DeleteRouter", "DeleteSubnetwork"),
    ("DeleteSubnetwork", "DeleteNetwork"),
    ("DeleteFirewall", "DeleteNetwork"),
    ("SetProjectPolicy", "DeleteServiceAccount"),
    ("SetAccountPolicy", "DeleteServiceAccount"),
    ("SetBucketPolicy", "DeleteBucket"),
]


@pytest.mark.system
def test_nothing_is_asked_to_go_before_what_needs_it(project: Gke) -> None:
    up(desk(), environment())
    project.forget()
    down(desk(), environment(), bucket=True)
    asked = [one for one in project.requests() if one["mutating"]]
    assert [one for one in asked if one["outcome"] != "OK"] == []
    methods = [one["method"] for one in asked]
    for first, then in FIRST_AND_THEN:
        assert first in methods and then in methods, (first, then)
        last = len(methods) - 1 - methods[::-1].index(first)
        assert last < methods.index(then), (first, then, methods)
    assert methods[-1] == "DeleteNetwork", "it alone may have to wait for what others have in it"
