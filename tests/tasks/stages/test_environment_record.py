"""What an environment's record says beside its things travels to whoever comes next, and is there in time."""

from __future__ import annotations

import json
from typing import Any

from tasks.stages.environment_record import about_to, made_so, own_windows
from tests.cloud.project.leasing import environment


def at(maintenance: str) -> Any:
    return environment(cluster={"name": "mine", "private": True, "maintenance": maintenance})


def test_windows_that_may_have_been_set_are_known_until_all_is_as_the_file_says() -> None:
    shape = about_to({}, at("03:00"))
    assert own_windows(shape) == {"03:00"}
    shape = about_to(about_to(shape, at("04:00")), environment())
    assert own_windows(shape) == {"03:00", "04:00"}
    assert own_windows(made_so(at("04:00"))) == {"04:00"}
    assert own_windows(made_so(environment())) == set()


def test_which_cluster_it_has_is_said_before_there_is_one() -> None:
    before = made_so(environment(name="lab"))
    other = environment(name="lab", cluster={"name": "other"})
    assert (before["cluster"], about_to(before, other)["cluster"]) == ("mine", "other")
    assert about_to(before, other)["config"] == before["config"]


def test_where_files_lie_on_the_machine_of_whoever_made_it_is_not_in_it() -> None:
    address = "https://example.com/kueue.yaml"
    queueing = {"jobset": {"manifests": "/home/me/jobset.yaml"}, "kueue": {"manifests": address}}
    told = json.loads(made_so(environment(queueing=queueing))["config"])["queueing"]
    assert told == {"jobset": {"manifests": "jobset.yaml"}, "kueue": {"manifests": address}}
