"""What is put into a Prefect server: the parts that decide something."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import yaml
from prefect.client.schemas.objects import Worker, WorkerStatus
from prefect.events.schemas.automations import AutomationCore
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.server.events.schemas.automations import EventTrigger
from prefect.server.events.schemas.events import ReceivedEvent

from flows.serving import place
from flows.serving.register import (
    MISSED_AFTER,
    PREFECT_FILE,
    TAG,
    cancel_missed,
    ensure_heartbeat_automation,
    heartbeat_automation,
    refuse_others,
    retire,
)
from flows.serving.settings import POOLS, ROOT
from runtime.contract.errors import BadInput
from tasks import nightly
from tasks.history.alerts import Event

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


class Client:
    """Has one flow run that a schedule made, and one that a person planned."""

    def __init__(self) -> None:
        self.asked: Any = None
        self.states: dict[str, Any] = {}

    def read_flow_runs(self, flow_run_filter: Any, work_pool_filter: Any) -> list[SimpleNamespace]:
        self.asked = flow_run_filter
        self.pools = work_pool_filter.name.any_
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
    assert client.pools == list(POOLS), "others' runs are theirs"
    assert client.asked.next_scheduled_start_time.before_ == NOW - MISSED_AFTER
    assert timedelta(minutes=10) < MISSED_AFTER, "the reaper's own interval is not a miss"


class Workers:
    """Has workers in the pool of benchmarks, and no other pool."""

    def __init__(self, *workers: Worker) -> None:
        self.workers = workers

    def read_workers_for_work_pool(self, pool: str) -> list[Worker]:
        if pool != "slicebench":
            raise ObjectNotFound(Exception())
        return list(self.workers)


def worker(name: str, status: str = "ONLINE") -> Worker:
    heard = NOW - timedelta(seconds=12)
    return Worker(name=name, work_pool_id=uuid4(), status=WorkerStatus(status), last_heartbeat_time=heard)


def test_two_on_one_database_would_take_each_others_runs_so_the_second_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine = place.worker_of("slicebench")
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path))
    theirs = place.worker_of("slicebench")
    assert mine.startswith(f"slicebench-on-{socket.gethostname()}-") and mine != theirs
    client: Any = Workers(worker(theirs), worker(mine))
    with pytest.raises(BadInput, match=f"its worker {mine} was heard 12 s ago.*database of its own"):
        refuse_others(client, NOW)


@pytest.mark.parametrize(
    ("name", "status"),
    [("slicebench-on-laptop-123456", "OFFLINE"), ("of a person", "ONLINE"), ("", "ONLINE")],
)
def test_no_other_up_is_one_that_is_down_or_a_worker_of_somebody_or_our_own(name: str, status: str) -> None:
    client: Any = Workers(worker(name or place.worker_of("slicebench"), status))
    refuse_others(client, NOW)


class Deployments:
    """Has deployments, by name with their tags, and notes which are deleted."""

    def __init__(self, **tags: list[str]) -> None:
        self.tags = {name.replace("__", "/"): tag for name, tag in tags.items()}
        self.deleted: list[str] = []

    def read_deployment_by_name(self, name: str) -> SimpleNamespace:
        if name not in self.tags:
            raise ObjectNotFound(Exception())
        return SimpleNamespace(id=name, tags=self.tags[name])

    def delete_deployment(self, name: str) -> None:
        self.deleted.append(name)


@pytest.mark.parametrize(
    ("tags", "deleted"),
    [
        ({"benchmark__weeknights": [TAG, "scheduled"], "benchmark__adhoc": [TAG]}, ["benchmark/weeknights"]),
        ({"benchmark__weeknights": ["mine"]}, []),
        ({}, []),
    ],
)
def test_what_nights_stand_in_for_is_taken_out(tags: dict[str, list[str]], deleted: list[str]) -> None:
    client: Any = Deployments(**tags)
    retire(client)
    assert client.deleted == deleted


FLOW = {
    "prefect.resource.role": "flow",
    "prefect.resource.id": "prefect.flow.1",
    "prefect.resource.name": "benchmark",
}


def event(name: str, *tags: str) -> ReceivedEvent:
    """Returns an event of a flow run of a flow called as ours, whose deployment has these tags."""
    related = [{"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{tag}"} for tag in tags]
    return ReceivedEvent.model_validate(
        {
            "occurred": NOW,
            "received": NOW,
            "event": f"prefect.flow-run.{name}",
            "resource": {"prefect.resource.id": f"prefect.flow-run.{uuid4()}"},
            "related": [FLOW, *related],
            "id": uuid4(),
        }
    )


@pytest.mark.parametrize("name", ["heartbeat", "Completed"])
def test_only_runs_of_our_own_deployments_are_called_crashed_when_silent(name: str) -> None:
    # As the server itself judges whether an event is the automation's.
    trigger = EventTrigger.model_validate(heartbeat_automation().trigger.model_dump(mode="json"))
    assert trigger.covers(event(name, "mine", TAG))
    assert not trigger.covers(event(name))
    assert not trigger.covers(event(name, "nightly"))


def test_every_deployment_has_the_tag_and_a_pool_of_ours() -> None:
    deployments = yaml.safe_load((ROOT / PREFECT_FILE).read_text())["deployments"]
    for deployment in deployments:
        assert TAG in deployment["tags"], deployment["name"]
        assert deployment["work_pool"]["name"] in POOLS


class Automations:
    """Keeps automations."""

    def __init__(self, *known: AutomationCore) -> None:
        self.made: list[Any] = []
        self.changed: dict[str, Any] = {}
        self.known = [
            SimpleNamespace(id=f"a{at}", name=one.name, trigger=one.trigger) for at, one in enumerate(known)
        ]

    def read_automations_by_name(self, name: str) -> list[SimpleNamespace]:
        return [one for one in self.known if one.name == name]

    def create_automation(self, automation: Any) -> None:
        self.made.append(automation)

    def update_automation(self, automation_id: str, automation: Any) -> None:
        self.changed[automation_id] = automation


def test_the_automation_of_an_earlier_version_is_brought_up_to_date_and_no_second_made() -> None:
    wanted = heartbeat_automation()
    old_trigger = wanted.trigger.model_copy(
        update={"match_related": ResourceSpecification.model_validate({})}
    )
    old = wanted.model_copy(update={"trigger": old_trigger})
    none: Any = Automations(wanted.model_copy(update={"name": "another's"}))
    ensure_heartbeat_automation(none)
    assert none.made == [wanted] and none.changed == {}
    outdated: Any = Automations(old)
    ensure_heartbeat_automation(outdated)
    assert outdated.made == [] and outdated.changed == {"a0": wanted}
    right: Any = Automations(AutomationCore.model_validate(wanted.model_dump(mode="json")))
    ensure_heartbeat_automation(right)
    assert right.made == [] and right.changed == {}, (
        "changing it would make it forget who was silent how long"
    )


def test_the_automation_that_ships_waits_for_the_alerts_that_nights_tell() -> None:
    ships = AutomationCore.model_validate(yaml.safe_load((ROOT / "deployments/alerts.yaml").read_text()))
    trigger = EventTrigger.model_validate(ships.trigger.model_dump())
    told: list[ReceivedEvent] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nightly, "emit_event", lambda **given: told.append(_received(given)))
        for number in (1, 2):  # opened, closed
            nightly.EVENTS.send(
                Event("series/s1", number, "n", "29", "regressed", "save", "+10 %", "29", 1.0)
            )
    assert [trigger.covers(one) for one in told] == [True, True]


def _received(given: dict[str, Any]) -> ReceivedEvent:
    return ReceivedEvent.model_validate({"occurred": NOW, **given})
