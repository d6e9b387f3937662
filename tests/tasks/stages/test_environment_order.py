"""In which order an environment goes: once all agree, first what needs others, so that nothing is in use any more."""

from __future__ import annotations

import pytest

from tasks.stages.clusters import Declined
from tasks.stages.environment import down, up
from tasks.stages.environment_plan import plan
from tests.cloud.container.running import Gke
from tests.cloud.project.leasing import desk, environment

pytestmark = pytest.mark.system

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


def test_nothing_is_asked_to_go_before_what_needs_it(project: Gke, monkeypatch: pytest.MonkeyPatch) -> None:
    up(desk(), environment())
    project.forget()
    shown: list[str] = []
    with monkeypatch.context() as busy, pytest.raises(Declined):
        busy.setattr("tasks.stages.clusters.goes_on_in", lambda office, name: [f"somebody trains in {name}"])
        down(desk(), environment(), bucket=True, agree=lambda going_on: shown.extend(going_on) or False)  # type: ignore[func-returns-value]
    assert (shown, project.mutations()) == (["somebody trains in mine"], [])
    assert plan(desk(), environment()).empty
    down(desk(), environment(), bucket=True)
    asked = [one for one in project.requests() if one["mutating"]]
    assert [one for one in asked if "already being used" in one.get("message", "")] == []
    methods = [one["method"] for one in asked if one["outcome"] == "OK"]
    for first, then in FIRST_AND_THEN:
        assert first in methods and then in methods, (first, then)
        last = len(methods) - 1 - methods[::-1].index(first)
        assert last < methods.index(then), (first, then, methods)
    assert methods[-1] == "DeleteNetwork", "it alone may have to wait for what others have in it"
