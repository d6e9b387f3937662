"""CronJobs in the stand-in: when they fire, what policies allow, what is kept. The cluster's clock is set."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.schedule import Schedule
from tests.cloud.kubernetes.space import Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.waiting import until


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "expected"),
    [
        ("*/10 * * * *", None, "2026-03-01T10:00:00", "2026-03-01T10:10:00"),
        ("*/10 * * * *", "Etc/UTC", "2026-03-01T23:59:59", "2026-03-02T00:00:00"),
        ("0 2 * * *", "Europe/Berlin", "2026-07-01T12:00:00", "2026-07-02T00:00:00"),
        ("5,35 8-9 * * mon-fri", None, "2026-03-06T09:35:00", "2026-03-09T08:05:00"),  # over a weekend
        ("0 0 13 * fri", None, "2026-03-07T00:00:00", "2026-03-13T00:00:00"),  # either day
        ("0 0 29 2 *", None, "2026-03-01T00:00:00", "2028-02-29T00:00:00"),
        ("@hourly", None, "2026-03-01T10:00:00", "2026-03-01T11:00:00"),
    ],
)
def test_the_next_time_of_a_schedule(schedule: str, zone: str | None, after: str, expected: str) -> None:
    assert Schedule(schedule, zone).after(at(after)) == at(expected)


@pytest.mark.parametrize("schedule", ["", "* * * *", "61 * * * *", "*/0 * * * *", "x * * * *", "5-1 * * * *"])
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError):
        Schedule(schedule)


@pytest.fixture
def timed(cluster: KubernetesStandIn, api: Space) -> Iterator[Any]:
    """Sets the cluster's clock ahead, to half a second (or later) after its next ten minutes have begun."""
    ahead = 0.0

    def pass_(late_s: float = 0.5) -> None:
        nonlocal ahead
        now = clock.nanoseconds() / 1e9 + ahead
        ahead += Schedule("*/10 * * * *").after(now) - now + late_s
        cluster.tell("skew", seconds=ahead)

    yield pass_
    api.delete("cronjobs", "tick", code=200)
    cluster.tell("skew", seconds=0)


def cronjob(program: str = "pass", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i:1", "command": ["python", "-c", program]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    job = {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}
    return {
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": job, **spec},
    }  # fmt: skip


def ended(api: Space, kind: str = "Complete") -> list[str]:
    return [
        job["metadata"]["name"]
        for job in api.get("jobs")["items"]
        if any(one["type"] == kind and one["status"] == "True" for one in job["status"].get("conditions", []))
    ]


def reasons(api: Space) -> set[str]:
    events = api.get("events")["items"]
    return {one["reason"] for one in events if one["involvedObject"]["kind"] == "CronJob"}


def test_each_time_starts_a_job_of_its_own_and_the_oldest_are_forgotten(api: Space, timed: Any) -> None:
    made = api.post("cronjobs", cronjob(successfulJobsHistoryLimit=2))
    seen: set[str] = set()

    def another(before: int) -> bool:
        seen.update(ended(api))
        return len(seen) > before

    for number in range(3):
        timed()
        until(partial(another, number))
    until(lambda: ended(api) == sorted(seen)[1:])
    job = api.get("jobs", sorted(seen)[-1])
    assert job["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    status = api.get("cronjobs", "tick")["status"]
    assert job["metadata"]["name"] == f"tick-{int(clock.parsed(status['lastScheduleTime'])) // 60}"
    until(lambda: "active" not in api.get("cronjobs", "tick")["status"])
    assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= reasons(api)


def test_forbid_waits_for_the_job_before_and_suspend_starts_none(api: Space, timed: Any) -> None:
    api.post("cronjobs", cronjob("import time; time.sleep(600)", concurrencyPolicy="Forbid"))
    timed()
    until(lambda: len(api.get("jobs")["items"]) == 1)
    timed()
    until(lambda: "JobAlreadyActive" in reasons(api))
    [running] = api.get("jobs")["items"]
    api.patch("cronjobs", "tick", {"spec": {"suspend": True}})
    api.delete("jobs", running["metadata"]["name"], propagationPolicy="Background")
    until(lambda: "MissingJob" in reasons(api))
    assert api.get("jobs")["items"] == []
    api.patch("cronjobs", "tick", {"spec": {"suspend": False}})
    until(lambda: len(api.get("jobs")["items"]) == 1)


def test_a_time_that_is_too_long_past_is_left_out(api: Space, timed: Any) -> None:
    api.post("cronjobs", cronjob(startingDeadlineSeconds=60, suspend=True))
    timed(late_s=120)
    api.patch("cronjobs", "tick", {"spec": {"suspend": False}})
    timed()
    until(lambda: ended(api))
    [job] = api.get("jobs")["items"]
    last = api.get("cronjobs", "tick")["status"]["lastScheduleTime"]
    assert job["metadata"]["name"] == f"tick-{int(clock.parsed(last)) // 60}"


def test_what_cannot_be_scheduled_is_refused(api: Space) -> None:
    for wrong in ({"schedule": "x"}, {"timeZone": "Mars/Base"}, {"concurrencyPolicy": "Sometimes"}):
        told = api.post("cronjobs", cronjob(**wrong), code=422)
        assert f"spec.{next(iter(wrong))}" in told["message"]
