"""Targets of flags alone, without the model: what they take is what the model takes, and means the same."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.config.accelerators import known_names
from tasks.config.gke_plain import PlainGke, PlainLimits, plain
from tasks.config.gke_target import GkeLimits, GkeTargetConfig
from tasks.targets.kube_jobset import jobset
from tests.tasks.config.test_gke_target import FIELDS
from tests.tasks.targets.kube_made import config, submission


def test_what_was_not_said_means_the_same() -> None:
    for model, ours in ((config(type="v5litepod-16", slices=1), PlainGke()), (GkeLimits(), PlainLimits())):
        names = type(model).model_fields
        assert set(names) == set(type(ours).__annotations__)
        said = {"kind", "context", "type", "platform", "limits"}
        for name in set(names) - said:
            assert getattr(ours, name) == getattr(model, name), name


NAMES = st.one_of(st.none(), st.sampled_from(["", "a", "medium", "x y", "UPPER"]))
NUMBERS = st.one_of(st.none(), st.integers(-1, 9), st.sampled_from([1024, 1025, 5000, True, "3"]))
SAID = {
    "context": NAMES, "namespace": NAMES, "queue": NAMES, "priority": NAMES, "scheduler": NAMES,
    "service_account": NAMES, "container_name": NAMES, "image": NAMES, "topology": st.sampled_from(["2x2", "4x4"]),
    "slices": NUMBERS, "nodes": NUMBERS, "containers_per_host": NUMBERS, "max_restarts": NUMBERS,
    "restart_on_user_code_failure": st.booleans(), "wait": st.booleans(), "env": st.just({"A": "b"}),
    "limits": st.fixed_dictionaries(
        {}, optional={"workload_s": NUMBERS, "termination_grace_s": NUMBERS, "ttl_s": NUMBERS, "nosuch": NUMBERS}
    ),
}  # fmt: skip


@given(
    name=st.sampled_from([*list(known_names())[::40], "cpu", "gpu-4", "l4-8", "h100-80gb-8", "nosuch"]),
    said=st.fixed_dictionaries({}, optional=SAID),
)
def test_what_is_taken_the_model_takes_and_makes_the_same_of(name: str, said: dict[str, Any]) -> None:
    asked = {"kind": "gke", "context": "c", "type": name, **said}
    ours = plain(asked)
    try:
        model = GkeTargetConfig.model_validate(asked)
    except pydantic.ValidationError:
        model = None
    if ours is not None:
        assert model is not None
        assert jobset(ours, submission()) == jobset(model, submission())


@pytest.mark.parametrize("name", FIELDS)
def test_no_field_is_taken_without_being_heeded(name: str) -> None:
    _, asked = FIELDS[name]
    base = {"kind": "gke", "context": "c", "type": "v5litepod-16", **asked}
    if (ours := plain(base)) is not None:
        assert jobset(ours, submission()) == jobset(config(**{"slices": 1, **asked}), submission())


def test_what_people_say_most_needs_no_model() -> None:
    said = {
        "type": "v5litepod-16",
        "slices": 2,
        "priority": "high",
        "max_restarts": 3,
        "limits": {"ttl_s": 60},
    }
    assert plain({"kind": "gke", "context": "c", **said}) is not None
