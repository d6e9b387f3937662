"""What is put into a Prefect server: the parts that decide something."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from flows.serving.register import MISSED_AFTER, cancel_missed

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


class Client:
    """Has one flow run that a schedule made, and one that a person planned."""

    def __init__(self) -> None:
        self.asked: Any = None
        self.states: dict[str, Any] = {}

    def read_flow_runs(self, flow_run_filter: Any) -> list[SimpleNamespace]:
        self.asked = flow_run_filter
        return [
            SimpleNamespace(id="nightly", auto_scheduled=True),
            SimpleNamespace(id="mine", auto_scheduled=False),
        ]

    def set_flow_run_state(self, flow_run_id: str, state: Any, force: bool) -> None:
        self.states[flow_run_id] = state


def test_what_the_schedule_wanted_while_nothing_was_up_is_cancelled_and_what_a_person_planned_is_not() -> (
    None
):
    client: Any = Client()
    cancel_missed(client, NOW)
    assert {name: state.name for name, state in client.states.items()} == {"nightly": "Cancelled"}
    assert client.asked.next_scheduled_start_time.before_ == NOW - MISSED_AFTER
    assert timedelta(minutes=10) < MISSED_AFTER, "the reaper's own interval is not a miss"
