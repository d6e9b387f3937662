"""What Cloud Monitoring has of a run's accelerators comes into its results: late, in part, or not at all."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from flows.cli.report import report as show_report
from tasks.cloud import monitoring
from tasks.cloud.google_rest import Rest
from tasks.cloud.timing import Timing
from tasks.config.gke_target import GkeTargetConfig
from tasks.history.reading import load_results
from tasks.stages import monitored
from tasks.stages.context import Run
from tasks.stages.files import ATTEMPTS_FILE, REQUEST_FILE
from tasks.stages.in_cluster import links
from tasks.stages.monitored import MONITORING_FILE, is_due
from tasks.stages.report import report
from tests.cloud.container.running import Gke
from tests.tasks.stages.test_report import Page, finished

PLACE = "cluster mine#0d5e8f21 of proj in us-east5/training"
GIB = 2**30


@pytest.fixture
def run(project: Gke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of two attempts on a slice of the stand-in's project; it was asked for twenty minutes ago."""
    monkeypatch.setattr(monitored, "_TIMING", Timing())  # however slow this machine is
    monkeypatch.setattr(monitored, "_LIMIT_S", 60.0)
    made = finished(tmp_path)
    config = GkeTargetConfig.model_validate(
        {"kind": "gke", "cluster": {"name": "mine"}, "type": "v5litepod-16", "slices": 1}
    )
    refs = [
        {"kind": "gke", "scope": PLACE, "name": f"sb-run-1-a{n}", "uid": "u", "attempt": n, "scratch": []}
        for n in (1, 2)
    ]
    attempts = [{"n": n, "ref": ref, "end": "preempted"} for n, ref in enumerate(refs, 1)]
    made.folder.write(ATTEMPTS_FILE, json.dumps(attempts).encode())
    made.folder.write(REQUEST_FILE, b"{}")
    results = load_results(made.folder)
    assert results is not None
    earlier = dataclasses.replace(results, asked_at=time.time() - 1200)
    made.folder.write("points.json", earlier.to_json().encode())
    said: list[str] = []
    return dataclasses.replace(made, spec=dataclasses.replace(made.spec, target=config), say=said.append)


def told(run: Run) -> Any:
    return json.loads(run.folder.read(MONITORING_FILE) or b"")


def saw(project: Gke, ago_s: float = 0.0) -> float:
    """GKE has written of two pods and of others' by now; returns when the last value was."""
    now = float(round(time.time()) - 30) - ago_s
    project.accelerator("sb-run-1-a1-slice-0-0-x", "duty_cycle", {now - 400: 10.0, now - 340: 30.0})
    project.accelerator("sb-run-1-a2-slice-0-0-y", "duty_cycle", {now - 60: 80.0, now: 100.0})
    for metric, value in (("memory_used", 12 * GIB), ("memory_total", 16 * GIB)):
        for chip in ("0", "1"):
            project.accelerator("sb-run-1-a2-slice-0-0-y", metric, {now: value}, accelerator_id=chip)
    project.accelerator("sb-run-1-b2-slice-0-0-z", "duty_cycle", {now: 1.0})
    return now


def test_how_busy_and_how_full_they_were_stands_in_results_and_report(project: Gke, run: Run) -> None:
    last = saw(project)
    page = Page(Path(report(run)).read_text())
    series = told(run)["series"]
    assert {(one["attempt"], one["pod"]) for one in series} == {
        (1, "sb-run-1-a1-slice-0-0-x"),
        (2, "sb-run-1-a2-slice-0-0-y"),
    }
    [busy] = [one for one in series if one["attempt"] == 2 and one["metric"] == "duty_cycle_percent"]
    assert [value for _, value in busy["values"]] == [80.0, 100.0]
    assert 0 <= busy["values"][-1][0] - last <= 60
    assert "20 % at most 30 %" in page.text and "90 % at most 100 %" in page.text
    assert "12.0 GiB on one of 16.0 GiB" in page.text
    assert "what came last may be missing" in page.text and not told(run)["whole"]


def test_what_shows_late_is_brought_later_and_then_never_asked_for_again(
    project: Gke, run: Run, tmp_path: Path
) -> None:
    saw(project, ago_s=300)
    project.set(metrics_late_s=500.0)
    report(run)
    assert {one["attempt"] for one in told(run)["series"]} == {1}
    results = load_results(run.folder)
    assert results is not None and results.collected_at is not None
    assert not is_due(run.folder, results, results.collected_at + 200)
    assert is_due(run.folder, results, results.collected_at + 300)
    project.set(metrics_late_s=0.0)
    run.folder.write(
        "points.json", dataclasses.replace(results, collected_at=time.time() - 300).to_json().encode()
    )
    assert show_report("run-1", output=str(tmp_path)) == 0
    asked = len(project.requests("ListTimeSeries"))
    assert show_report("run-1", output=str(tmp_path)) == 0
    assert len(project.requests("ListTimeSeries")) == asked
    assert told(run)["whole"] and {one["attempt"] for one in told(run)["series"]} == {1, 2}
    assert "what came last may be missing" not in (run.folder.read("report.html") or b"").decode()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"forbidden": ["monitoring.timeSeries.list"]}, "monitoring.timeSeries.list"),
        ({"apis_off": ["monitoring.googleapis.com"]}, "monitoring.googleapis.com"),
        ({}, "There is nothing of them"),
    ],
)
def test_what_cannot_be_had_is_told_and_stops_nothing(
    project: Gke, run: Run, settings: dict[str, Any], words: str
) -> None:
    project.set(**settings)
    assert words in Page(Path(report(run)).read_text()).text


@pytest.mark.parametrize("action", ["error", "stall", "lose_reply"])
def test_a_service_that_falters_holds_up_nothing(
    project: Gke, run: Run, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitored, "_TIMING", Timing(try_s=1.0, total_s=0.1))
    for nth in range(1, 10):
        project.fault("ListTimeSeries", action, nth=nth, code="UNAVAILABLE", seconds=2.0)
    report(run)
    assert told(run)["why"] and told(run)["series"] == []


AT = {"interval": {"endTime": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    "answer",
    [
        {"timeSeries": [{"resource": []}]},
        {"timeSeries": ["x"]},
        {"timeSeries": 5},
        {"timeSeries": [{"resource": {"labels": {}}}]},
        {"timeSeries": [{"resource": {"labels": {"pod_name": "p"}}, "metric": []}]},
        {
            "timeSeries": [
                {"resource": {"labels": {"pod_name": "p"}}, "points": [{**AT, "value": {"doubleValue": "x"}}]}
            ]
        },
        {
            "timeSeries": [
                {"resource": {"labels": {"pod_name": "p"}}, "points": [{"interval": {"endTime": "soon"}}]}
            ]
        },
        {
            "timeSeries": [
                {"resource": {"labels": {"pod_name": "p"}}, "points": [{"interval": {"endTime": 5}}]}
            ]
        },
        [],
    ],
    ids=str,
)
def test_an_answer_that_is_none_is_told(run: Run, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(Rest, "get", lambda self, doing, path: answer)
    report(run)
    assert re.match("cannot read duty_cycle_percent .* answered what cannot be read", told(run)["why"])


def test_long_runs_are_told_in_longer_steps_and_many_series_in_pages(
    project: Gke, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "_PAGE", 1)
    monkeypatch.setattr(monitoring, "_MOST_VALUES", 5)
    now = time.time()
    for chip in ("0", "1"):
        each_minute = {now - 30 - 60 * n: 50.0 for n in range(9)}
        project.accelerator("sb-run-1-a1-slice-0-0-x", "duty_cycle", each_minute, accelerator_id=chip)
    report(run)
    series = told(run)["series"]
    assert [one["accelerator"] for one in series] == ["0", "1"]
    assert all(2 <= len(one["values"]) <= 5 for one in series)


def test_links_lead_to_the_dashboards_of_the_cluster(run: Run) -> None:
    page = "kubernetes/clusters/details/us-east5/mine/observability?project=proj"
    assert ("metrics", f"https://console.cloud.google.com/{page}") in links(run.folder)
