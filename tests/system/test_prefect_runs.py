"""Runs through a real Prefect server and worker: the good way, and every way to end before the end."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.leases.lease import State
from tests.system.browser import CHROMIUM, Browser
from tests.system.conftest import with_venvs
from tests.system.prefect_station import PATIENCE_S, ROOT, Station, wait_for
from tests.system.suites import lay_suite
from tests.system.test_retry import assert_only_the_middle_was_measured_again
from tests.tasks.stages.test_nightly_alerts import Receiver

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def one_station(tmp_path_factory: pytest.TempPathFactory, venvs: Path) -> Iterator[Station]:
    up = Station(with_venvs(tmp_path_factory.mktemp("station"), venvs))
    yield up
    up.close()


@pytest.fixture
def station(one_station: Station) -> Iterator[Station]:
    yield one_station
    one_station.end_commands()


def nothing_left(station: Station, run_id: str) -> bool:
    gone = all(lease.state is State.GONE for lease in station.leases(run_id))
    return gone and bool(station.leases(run_id)) and not station.workload(run_id)


def test_a_run_goes_through_the_deployment_and_shows_in_the_ui(station: Station) -> None:
    command = station.command("run", "quickstart", "--run-id", "good", "--set", "num_repeats=2")
    told, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0, told
    # Whether there is an earlier run to compare with depends on the order of the tests.
    assert re.search("verdict: (NO_BASELINE|INCONCLUSIVE)", told)
    assert station.state("good") == "Completed"
    assert station.flow_run("good")["name"] == "quickstart on local"
    stages = ["build", "provision", "upload", "run", "collect", "teardown", "compare", "report"]
    assert station.task_runs("good") == stages
    artifacts = station.artifacts("good")
    assert set(artifacts) == {"results-quickstart", "report-quickstart", "progress-quickstart"}
    assert "use_ocdbt" in artifacts["results-quickstart"]
    assert str(station.folder("good") / "report.html") in artifacts["report-quickstart"]
    assert float(artifacts["progress-quickstart"]) > 0
    assert nothing_left(station, "good")


def test_by_prefects_own_command_a_run_gets_a_name(station: Station) -> None:
    settings = {"PREFECT_API_URL": str(station.http.base_url), "PREFECT_API_AUTH_STRING": station.auth}
    words = ["deployment", "run", "benchmark/adhoc", "--param", 'set=["num_repeats=1"]', "--watch"]
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", *words],
        env=station.environment | settings, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = [path for path in (station.home / "runs").iterdir() if path.name.startswith("quickstart-2")]
    assert (run / "outcome.json").exists()


def test_an_interrupted_command_cancels_and_everything_goes_back(station: Station) -> None:
    run_id = "cancelled"
    command = station.long_run(run_id)
    command.send_signal(signal.SIGINT)
    told, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130, told
    assert station.state(run_id) == "Cancelled"
    # Prefect kills a flow that takes half a minute for it: a hook does the rest then.
    wait_for(lambda: nothing_left(station, run_id))


def test_a_flow_that_is_killed_crashes_and_everything_goes_back(station: Station) -> None:
    command = station.long_run("killed")
    station.flow_process("killed").kill()
    told, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 3, told
    assert station.state("killed") == "Crashed"
    wait_for(lambda: nothing_left(station, "killed"))


def test_bad_input_fails_with_one_line_and_makes_nothing(station: Station) -> None:
    deployment = station.read("deployments/name/benchmark/adhoc")["id"]
    parameters = {"suite": "quickstart", "run_id": "bad", "set": ["no_such_key=1"]}
    station.call(f"deployments/{deployment}/create_flow_run", {"parameters": parameters})
    wait_for(lambda: station.state("bad") == "Failed")
    message = station.flow_run("bad")["state"]["message"]
    assert message.startswith("BAD_INPUT: ")
    assert "no_such_key" in message
    assert "\n" not in message
    assert not station.folder("bad").exists()
    assert station.leases("bad") == []


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
def test_the_form_has_fields_and_drop_downs_and_a_retry_by_its_button_does_only_what_is_missing(
    station: Station,
) -> None:
    in_the_way = station.folder("retried") / "points.json"
    in_the_way.mkdir(parents=True)
    command = station.command("run", "quickstart", "--run-id", "retried", "--set", "num_repeats=2")
    told, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 3, told
    assert station.state("retried") == "Failed"
    assert "failure-quickstart" in station.artifacts("retried")
    shutil.rmtree(in_the_way)
    before = {stage: stat(station, stage) for stage in ("build", "provision", "upload", "run")}
    leases = [lease.lease_id for lease in station.leases("retried")]

    with Browser() as browser:
        log_in(browser, station)
        open_form(browser, station)
        browser.wait_for_text("Suite to run: a path")
        browser.wait_for_text("on_failure")
        form = browser.text()
        assert "JSON" not in form
        assert "None" not in form.partition("pr (Optional)")[0], (
            "text is a field, though it may be left empty"
        )
        open_run(browser, station, "retried", shows="INFRASTRUCTURE")
        press_retry(browser, station, "retried")
    assert_completed(station, "retried")

    assert {stage: stat(station, stage) for stage in before} == before
    again = [name for name in station.task_runs("retried") if "attempt 2" in name]
    assert "collect (attempt 2)" in again
    assert not {"provision (attempt 2)", "upload (attempt 2)", "run (attempt 2)"} & set(again)
    for lease in station.leases("retried"):
        assert lease.state is State.GONE
        assert lease.lease_id in leases or not lease.resources, "a retry of collect made something"


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
def test_a_retry_of_a_failed_run_measures_only_the_point_that_failed(station: Station) -> None:
    bad = station.home / "bad"
    bad.touch()
    suite = lay_suite(station.home / "suites" / "moody", "moody", size=[4, 5, 6], bad=str(bad))
    words = ("--run-id", "moody", "--workers", "2", "--devices-per-worker", "1")
    told, _ = (command := station.command("run", str(suite), *words)).communicate(timeout=PATIENCE_S)
    assert command.returncode == 1, told
    assert station.state("moody") == "Failed"
    bad.unlink()
    with Browser() as browser:
        log_in(browser, station)
        open_run(browser, station, "moody", shows="in a bad mood")
        press_retry(browser, station, "moody")
    assert_completed(station, "moody")
    assert_only_the_middle_was_measured_again(station.folder("moody"))
    assert nothing_left(station, "moody")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_nights_run_one_at_a_time_in_a_pool_of_their_own_are_retried_and_tell(
    station: Station, receiver: Receiver
) -> None:
    automation = _notify(station, receiver.url)
    # With room for one benchmark at a time, a night in the same pool would wait for itself.
    one_at_a_time = {"concurrency_limit": 1}
    # A server that is busy answers 503 now and then.
    wait_for(lambda: station.http.patch("work_pools/slicebench", json=one_at_a_time).is_success)
    deployment = station.read("deployments/name/nightly/weeknights")["id"]
    nights = {}
    for name in ("first", "second"):
        folder = station.home / "suites" / name
        lay_suite(folder, "patient", go=str(folder / "go"))
        (folder / "one.yaml").write_text("kind: local\nworkers: 1\ndevices_per_worker: 1\n")
        (folder / "red.yaml").write_text("suite_name: red\nbenchmarcks: []\n")
        suites = "./patient.yaml" if name == "first" else "./patient.yaml, ./red.yaml"
        file = folder / "night.yaml"
        file.write_text(f"name: {name}\nsuites: [{suites}]\ntargets: [./one.yaml]\n")
        parameters = {"file": str(file), "night": "2026-11-30"}
        made = station.call(f"deployments/{deployment}/create_flow_run", {"parameters": parameters})
        nights[name] = made["id"]
        if name == "first":
            wait_for(lambda: _runs_of(station, "first"))
            wait_for(lambda: station.measuring(_runs_of(station, "first")[0]))
    wait_for(lambda: _night(station, nights["second"])["state"]["name"] == "AwaitingConcurrencySlot")
    station.let_go("second")  # it would end at once if it ran
    assert not _runs_of(station, "second")
    station.let_go("first")
    wait_for(lambda: _night(station, nights["second"])["state"]["name"] == "Failed")
    first, second = (_night(station, one) for one in nights.values())
    assert first["state"]["name"] == "Completed", first["state"]
    assert second["start_time"] > first["end_time"]
    assert second["state"]["message"].startswith("INFRASTRUCTURE: 1 of 2 cells ran, 1 did not run")
    artifacts = station.call("artifacts/latest/filter")
    assert {one["key"] for one in artifacts} >= {"nightly-first", "nightly-second", "nightly-cells-second"}
    wait_for(lambda: _alerts(station) == ["slicebench.alert.opened"])
    # The suite is mended and the night retried, in the UI say: what is missing is done, and nothing twice.
    (station.home / "suites/second/red.yaml").write_text(
        (station.home / "suites/second/patient.yaml").read_text()
    )
    before = station.flow_run(_runs_of(station, "second")[0])
    retry = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": False}
    station.call(f"flow_runs/{nights['second']}/set_state", retry)
    wait_for(lambda: _night(station, nights["second"])["state"]["name"] == "Completed")
    assert len(_runs_of(station, "second")) == 2
    assert station.flow_run(str(before["parameters"]["run_id"]))["run_count"] == 1
    wait_for(lambda: sorted(_alerts(station)) == ["slicebench.alert.closed", "slicebench.alert.opened"])
    wait_for(lambda: len(receiver.got) == 2)
    assert [one["body"].startswith("second 2026-11-30: ") for one in receiver.got] == [True, True]
    assert {one["subject"] for one in receiver.got} == {"red · one · pinned"}
    unlimited = {"concurrency_limit": None}
    wait_for(lambda: station.http.patch("work_pools/slicebench", json=unlimited).is_success)
    wait_for(lambda: station.http.delete(f"automations/{automation}").status_code in (204, 404))


def _night(station: Station, flow_run: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = station.read(f"flow_runs/{flow_run}")
    return found


def _notify(station: Station, url: str) -> str:
    """Lets Prefect send alerts as the automation that ships does; returns its id."""
    kind = station.read("block_types/slug/custom-webhook")["id"]
    [schema] = station.call("block_schemas/filter", {"block_schemas": {"block_type_id": {"any_": [kind]}}})
    message = {"subject": "{{subject}}", "body": "{{body}}"}
    block = station.call(
        "block_documents/",
        {
            "name": "team",
            "block_type_id": kind,
            "block_schema_id": schema["id"],
            "data": {"name": "team", "url": url, "json_data": message},
        },
    )
    automation = yaml.safe_load((ROOT / "deployments/alerts.yaml").read_text())
    automation["actions"][0]["block_document_id"] = block["id"]
    return str(station.call("automations/", automation)["id"])


def _alerts(station: Station) -> list[str]:
    """Returns the events of alerts that the server has: they come to it a while after they were told."""
    found = station.call("events/filter", {"filter": {"event": {"prefix": ["slicebench.alert."]}}})
    return [one["event"] for one in found["events"]]


def _runs_of(station: Station, name: str) -> list[str]:
    """Returns the ids of the runs that a night has begun."""
    found = (station.home / "runs").glob(f"{name}-20261130-*")
    return sorted(one.name for one in found if (one / "request.json").exists())


def stat(station: Station, stage: str) -> tuple[int, bytes]:
    marker = station.folder("retried") / "stages" / f"{stage}.json"
    return marker.stat().st_mtime_ns, marker.read_bytes()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
def test_the_form_starts_the_run_that_was_filled_in(station: Station, tmp_path: Path) -> None:
    suite = lay_suite(tmp_path / "by-form", "patient", go=str(tmp_path))
    with Browser() as browser:
        log_in(browser, station)
        open_form(browser, station)
        fill_in(browser, "suite", str(suite))
        fill_in(browser, "run_id (Optional)", "by-form")
        fill_in(browser, "output (Optional)", "/nowhere")
        fill_in(browser, "output (Optional)", "")
        browser.submit("//button[normalize-space()='Submit']")
        wait_for(lambda: station.knows("by-form"))
    assert_completed(station, "by-form")
    assert (station.folder("by-form") / "report.html").exists()
    assert nothing_left(station, "by-form")


def fill_in(browser: Browser, label: str, text: str) -> None:
    """Replaces what is in a field of a form."""
    browser.fill(
        f"//span[@class='schema-form-property__label'][normalize-space()='{label}']/following::textarea[1]",
        text,
    )


def log_in(browser: Browser, station: Station) -> None:
    browser.open(f"http://127.0.0.1:{station.port}/")
    field = "//form//input"

    def enter() -> bool:
        if not browser.shows(field):
            return False
        browser.fill(field, station.auth)
        browser.press_enter()
        return True

    browser.persist(enter, lambda: "Dashboard" in browser.text(), "dashboard")


def open_form(browser: Browser, station: Station) -> None:
    """Opens the form of a deployment, all of it."""
    deployment = station.read("deployments/name/benchmark/adhoc")
    fields = len(deployment["parameter_openapi_schema"]["properties"])
    labels = "document.querySelectorAll('.schema-form-property__label').length"

    def load() -> bool:
        browser.open(f"http://127.0.0.1:{station.port}/deployments/deployment/{deployment['id']}/run")
        return True

    browser.persist(load, lambda: browser.script(labels) >= fields, "form with all its fields")


def open_run(browser: Browser, station: Station, run_id: str, shows: str) -> None:
    """Opens a flow run's details, which have its message: of the log only the beginning is there before one scrolls."""
    flow_run = station.flow_run(run_id)["id"]
    browser.show(f"http://127.0.0.1:{station.port}/runs/flow-run/{flow_run}?tab=Details", shows)


def press_retry(browser: Browser, station: Station, run_id: str) -> None:
    """In the page of a failed flow run, which is open: the menu, Retry, and yes, until the run is under way."""
    retry = "//button[normalize-space()='Retry']"
    left: list[str] = []

    def begin() -> bool:
        browser.open(browser.script("location.href"))
        left[:] = retry, f"//*[@role='dialog']{retry}"
        return True

    def under_way() -> bool:
        if left and browser.shows(left[0]):
            browser.click(left.pop(0))
        return station.state(run_id) != "Failed"

    browser.persist(begin, under_way, f"retry of {run_id}")


def assert_completed(station: Station, run_id: str) -> None:
    wait_for(lambda: station.state(run_id) in ("Completed", "Failed", "Crashed"))
    assert station.state(run_id) == "Completed", station.flow_run(run_id)


def test_deploying_by_hand_gives_the_same_deployments(station: Station) -> None:
    settings = {"PREFECT_API_URL": str(station.http.base_url), "PREFECT_API_AUTH_STRING": station.auth}
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all",
         "--prefect-file", "deployments/prefect.yaml"],
        cwd=ROOT, env=station.environment | settings | {"PWD": str(ROOT)},
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = {deployment["name"]: deployment for deployment in station.call("deployments/filter")}
    assert set(found) == {"adhoc", "weeknights", "up", "down", "every-10-minutes"}
    (schedule,) = found["weeknights"]["schedules"]
    assert schedule["schedule"]["cron"] == "0 2 * * 1-5"
    assert schedule["schedule"]["timezone"] == "America/Los_Angeles"
    assert found["weeknights"]["global_concurrency_limit"]["limit"] == 1
    of_others = "slicebench alerts"  # another test's
    names = [one["name"] for one in station.call("automations/filter") if one["name"] != of_others]
    assert len(names) == len(set(names)) == 2, names


def test_the_auth_string_is_needed_and_kept_from_others(station: Station) -> None:
    assert station.http.post("flow_runs/filter", json={}, auth=("slicebench", "wrong")).status_code == 401
    assert (station.home / "prefect" / "auth").stat().st_mode & 0o077 == 0
    assert (station.home / "prefect" / "up.json").stat().st_mode & 0o077 == 0
    assert station.auth.split(":")[1] not in station.log.read_text()


def test_up_again_says_that_it_is_up(station: Station) -> None:
    told, _ = (command := station.command("up")).communicate(timeout=PATIENCE_S)
    assert command.returncode == 0
    assert f"up already, by process {station.process.pid}" in told


def test_a_port_that_is_taken_is_refused_and_its_holder_named(station: Station, tmp_path: Path) -> None:
    other = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "up", "--port", str(station.port)],
        cwd=ROOT, env=station.environment | {"SLICEBENCH_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert other.returncode == 2
    assert f"port {station.port}" in other.stderr
    assert "choose another: slicebench up --port" in other.stderr
    assert list(tmp_path.iterdir()) == []
