"""What every test gets: a state root of its own, a clean environment, and an honest account of what was skipped."""

from __future__ import annotations

import gc
import itertools
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# Collecting makes a million objects that all stay. To look for garbage among them, again and again, takes nearly as
# long as to make them.
gc.disable()

# How long data take to make says how busy the machine is, and nothing about the code.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")

# Fixtures that start a server for all tests of a process, or that tests of several folders use.
pytest_plugins = (
    "tests.cloud.container.running",
    "tests.cloud.fake_gcs",
    "tests.cloud.sshd",
    "tests.cloud.store.running",
    "tests.cloud.tpu.running",
    "tests.flows.prefect_server",
)

# Files of slow tests that take minutes, the longest first: whoever else is done would wait for them at the end.
LONG = tuple(
    f"tests/{name}.py"
    for name in (
        "system/test_images", "system/test_prefect_runs", "system/test_shipped_suites", "system/test_prefect_station",
        "system/test_prefect_without_server", "system/test_reaper_image", "system/test_prefect_left",
        "system/test_gke_bad_luck", "system/test_gke_cluster_run",
        "chaos/test_reaper_alone", "chaos/test_kill_prefect", "chaos/test_kill_acceptance", "chaos/test_kill_workload",
    )
)  # fmt: skip

# Fixtures that are dear to start, or whose tests take long: who uses them comes first, and nobody waits for them at the
# end.
DEAR = ("prefect_url", "tpu_server", "gke_server", "cluster", "two_hosts", "make")

# Tests start hundreds of Pythons, each of which would compile again what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What the machine can do at best takes a worker a second or two to find out: those that are tested for it ask.
os.environ.setdefault("SLICEBENCH_LIMITS", "off")

# Set by .ci/run, where everything is installed: there a skipped test is a failed one.
NO_SKIPS = "SLICEBENCH_NO_SKIPS"

_skipped: dict[str, int] = {}
_number = itertools.count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Gives each test a folder as pytest does, which for each reads the names of all others to find a free one."""
    words = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{next(_number)}-{words}"
    folder.mkdir(0o700)
    return folder


@pytest.fixture(autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gives each test a state root nobody else uses, and no Prefect server or Google project of the user's."""
    home = tmp_path_factory.getbasetemp() / f"{next(_number)}-home"
    home.mkdir(0o700)
    monkeypatch.setenv("SLICEBENCH_HOME", str(home))
    monkeypatch.delenv("SLICEBENCH_LEDGER", raising=False)
    monkeypatch.delenv("SLICEBENCH_HISTORY", raising=False)
    for name in list(os.environ):
        if name.startswith(("PREFECT_", "GOOGLE_", "JAX_", "XLA_", "STORAGE_EMULATOR")):
            monkeypatch.delenv(name)
    return home


@pytest.hookimpl(trylast=True)  # after the order was made random
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with what takes longest, and lets modules that use the same dear server follow each other: of several
    processes, few come to start it.
    """
    used: dict[str, set[str]] = {}
    for item in items:
        used.setdefault(_module(item), set()).update(getattr(item, "fixturenames", ()))
    place = {name: n for n, name in enumerate(LONG)}
    items.sort(
        key=lambda item: [
            place.get(_module(item), len(LONG)),
            *(name not in used[_module(item)] for name in DEAR),
        ]
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Keeps tests of a file together, as --dist loadfile does, and all that use the real Prefect server as well."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    from tests.flows.prefect_server import ITS_FILES

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "prefect" if file in ITS_FILES else file

    return Together(config, log)


@pytest.hookimpl(tryfirst=True)  # also where other processes collect and run them
def pytest_runtestloop() -> None:
    """Looks for garbage among what tests make from now on, and no more among what was there before them."""
    gc.freeze()
    gc.enable()


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts skips by reason."""
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        _skipped[reason] = _skipped.get(reason, 0) + 1


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Ends the run by saying what was not tested and how to get it."""
    if _skipped:
        terminalreporter.section("not tested here")
        for reason, count in sorted(_skipped.items()):
            terminalreporter.write_line(f"{count} × {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run where skips are forbidden."""
    if os.environ.get(NO_SKIPS) and _skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
