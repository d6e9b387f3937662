"""Cells on the same hardware are in one lane, others in their own."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from tasks.config.nightly import Version
from tasks.config.nightly_cells import Cell
from tasks.config.target import TargetConfig
from tasks.stages.nightly_places import lanes, places_of


@pytest.mark.parametrize(
    ("fields", "places"),
    [
        ({"kind": "local"}, {"this machine"}),
        ({"kind": "ssh", "hosts": ["a", "b"], "user": "u", "output": "/o"}, {"host a", "host b"}),
        ({"kind": "tpu_vm", "type": "v6e-16", "zones": ["us-east5-b"]}, {"target mine"}),
        ({"kind": "tpu_vm", "type": "v6e-16", "existing": "t1"}, {"tpu t1"}),
        ({"kind": "gke", "type": "cpu", "context": "c", "image": "r/i@sha256:" + "0" * 64}, {"context c"}),
        ({"kind": "gke", "type": "v6e-16", "cluster": {"name": "k"}, "image": "r/i:1"}, {"cluster k"}),
    ],
)
def test_what_hardware_a_target_stands_for(fields: dict[str, Any], places: set[str]) -> None:
    target: Any = TypeAdapter(TargetConfig).validate_python(fields)
    assert places_of("mine", target) == places


def test_lanes_join_where_hardware_is_shared_and_keep_the_order() -> None:
    on = [{"a"}, {"b"}, {"a", "c"}, {"d"}, {"c"}, {"b"}]
    cells = [Cell(str(n), "t", Version.model_validate({})) for n in range(len(on))]
    found = lanes([(cell, frozenset(places)) for cell, places in zip(cells, on, strict=True)])
    assert [[cell.suite for cell in lane] for lane in found] == [["0", "2", "4"], ["1", "5"], ["3"]]
