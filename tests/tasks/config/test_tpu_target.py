"""The model of TPU target files: what it chooses, and what it refuses with which words."""

from __future__ import annotations

import datetime
from typing import Any

import pydantic
import pytest

from runtime.contract.errors import BadInput
from tasks.config.tpu_target import TpuVmTargetConfig


def config(**fields: Any) -> TpuVmTargetConfig:
    return TpuVmTargetConfig.model_validate(
        {"kind": "tpu_vm", "type": "v6e-16", "zones": "us-east5-b", "python": "/p", **fields}
    )


@pytest.mark.parametrize(
    ("fields", "queued"),
    [
        ({}, False),
        ({"tier": "spot"}, False),
        ({"slices": 2}, True),
        ({"queued": True}, True),
        ({"valid_until": "2h"}, True),
        ({"valid_after": "2040-01-01T00:00:00Z"}, True),
        ({"tier": "reserved", "reservation": "r"}, True),
    ],
)
def test_node_or_queued_resource_is_chosen(fields: dict[str, Any], queued: bool) -> None:
    assert config(**fields).as_queued is queued


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": None}, "type"),
        ({"python": "python3"}, "it is looked up on the workers"),
        ({"python_version": "3.12"}, "where python: names none"),
        ({"python": None, "python_version": "3.10"}, "python_version"),
        ({"tier": "reserved"}, "belong together"),
        ({"reservation": "r"}, "belong together"),
        ({"slices": 2, "queued": False}, "several slices need a queued resource"),
        (
            {"tier": "reserved", "reservation": "r", "queued": False},
            "reservations by name need a queued resource",
        ),
        ({"valid_after": "2h", "valid_until": "1h"}, "valid_after must come before"),
        ({"valid_until": "soon"}, "valid_until"),
        ({"zone": "a"}, "zone"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=words):
        config(**fields)


def test_spans_are_from_now_on_and_moments_are_utc() -> None:
    until = config(valid_until="90m").valid_until
    assert until is not None
    assert abs((until - datetime.datetime.now(datetime.UTC)).total_seconds() - 5400) < 5
    moment = config(valid_after=datetime.datetime(2040, 1, 1)).valid_after
    assert moment == datetime.datetime(2040, 1, 1, tzinfo=datetime.UTC)


def test_workers_follow_from_the_type() -> None:
    assert config().with_choices(None, None) == config()
    with pytest.raises(BadInput, match="another type than v6e-16"):
        config().with_choices(3, None)
