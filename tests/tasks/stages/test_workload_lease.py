"""Until when a workload that somebody submits may stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tasks.config.gke_plain import PlainGke, PlainLimits
from tasks.stages.workload_lease import expiry


@pytest.mark.parametrize(
    ("limits", "queue", "deadline_s", "expires_at"),
    [
        ({"queue_s": 1000}, "q", 100, 1000 + 100 + 30 + 300),
        ({"queue_s": 1000}, None, 100, 100 + 30 + 300),  # what has no queue has its turn at once
        ({"queue_s": 1000, "termination_grace_s": 600}, None, 100, 100 + 600 + 300),
        ({"queue_s": 1000}, "q", None, None),
        ({"queue_s": None}, "q", 100, None),
        ({"queue_s": None}, None, 100, 100 + 30 + 300),
    ],
)
def test_it_stays_for_its_turn_its_deadline_and_its_pods_grace(
    limits: dict[str, Any], queue: str | None, deadline_s: int | None, expires_at: float | None
) -> None:
    config: Any = PlainGke(type="cpu", queue=queue, limits=replace(PlainLimits(), **limits))
    assert expiry(config, deadline_s, 0.0) == expires_at
