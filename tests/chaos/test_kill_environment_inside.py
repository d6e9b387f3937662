"""Pull the plug at every mutating call that an environment's cluster sees: its teams' namespaces, accounts and queues.

The same again leads to the same cluster as if nothing had happened, also where teams and slices come and go; and
`env down` leaves nothing. Calls to Google are struck in test_kill_environment.py.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.config.environment import EnvironmentConfig
from tasks.leases.lease import State
from tasks.leases.reaper import reap
from tasks.stages.environment import down, up
from tasks.stages.environment_desk import Desk
from tasks.stages.environment_inside import inside_of
from tasks.stages.environment_plan import plan
from tests.chaos.driver import outcome
from tests.chaos.inside import SOON, WITHOUT, calls_inside, fault, moments_of, mutating
from tests.cloud.container.leasing import a_ledger
from tests.cloud.container.running import Gke
from tests.cloud.kubernetes.releases import Releases
from tests.cloud.project.leasing import desk, environment, inventories
from tests.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

FULL: dict[str, Any] = {"teams": [{"name": "training", "slices": 1}, {"name": "lab"}]}
LESS: dict[str, Any] = {"teams": [{"name": "lab"}], "tpu_pools": 0}


@pytest.fixture(scope="module")
def releases() -> Iterator[Releases]:
    with Releases.served() as served:
        yield served


class Shared:
    """An environment, played with by processes of their own: whoever forks may have no connections."""

    def __init__(self, project: Gke, releases: Releases) -> None:
        self.project, self.releases = project, releases

    def wanted(self, fields: dict[str, Any]) -> EnvironmentConfig:
        return environment(**fields, queueing=self.releases.queueing())

    def make(self, fields: dict[str, Any]) -> Callable[[], None]:
        return lambda: _drop(up(_desk(), self.wanted(fields)))

    def unmake(self) -> None:
        down(_desk(), self.wanted(FULL), bucket=True)

    def done(self, do: Callable[[], None], at: object = None) -> None:
        assert outcome(do) == 0, at

    def killed(self, do: Callable[[], None], call: str, moment: str) -> None:
        """Plays until the plug is pulled at a call to the cluster that is there."""
        self.project.kubernetes("mine").fault(**fault(call, moment))
        assert outcome(do) == -signal.SIGKILL, (call, moment)
        self.project.kubernetes("mine").fault()

    def unmade(self, at: object = None) -> None:
        """Gives it back, which leaves nothing. In a cluster that goes nothing is changed: no call to strike."""
        calls_inside(self.project)  # those before are forgotten
        gone = len(self.project.ended())
        self.done(self.unmake, at)
        assert self.project.inventory() == [], at
        assert all(lease.state is State.GONE for lease in a_ledger().listing().leases), at
        until(lambda: len(self.project.ended()) > gone)
        assert mutating(self.project.ended()[-1]["calls"]) == [], at

    def calls_of(self, do: Callable[[], None]) -> list[str]:
        calls_inside(self.project)  # those before are forgotten
        self.done(do)
        return calls_inside(self.project)

    def swept(self, at: object) -> None:
        def sweep() -> None:
            ledger = a_ledger()
            assert {one.did for one in reap(ledger, inventories(ledger))} <= {"put back", "kept"}

        self.done(sweep, at)

    def is_so(self, fields: dict[str, Any], at: object) -> None:
        """Sees that all is as a file says, inside the cluster as well."""

        def look() -> None:
            planned = plan(_desk(), self.wanted(fields))
            assert planned.empty, planned

        self.done(look, at)

    @property
    def objects(self) -> dict[str, list[str]]:
        told: dict[str, list[str]] = self.project.kubernetes("mine").inventory()["objects"]
        return {kind: sorted(names) for kind, names in told.items() if kind not in ("events", "pods")}


@pytest.fixture
def shared(project: Gke, releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shared:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(project.credentials()))
    project.set(kubernetes=WITHOUT)
    return Shared(project, releases)


def _desk() -> Desk:
    return desk(inside=lambda config: inside_of(config, "proj", lambda line: None, SOON))


def _drop(done: object) -> None:
    """What `up` came to is not looked at."""


def test_killed_while_its_cluster_is_set_up(shared: Shared) -> None:
    before = shared.project.project_inventory(), shared.project.inventory()
    shared.done(shared.make(FULL))
    calls, whole = calls_inside(shared.project), shared.objects
    assert {"namespaces", "serviceaccounts", "clusterqueues", "localqueues"} <= {
        call.split()[1] for call in calls
    }
    for number, at in enumerate(moments_of(calls)):
        shared.project.kubernetes("mine").tell("empty")
        shared.killed(shared.make(FULL), *at)
        if number % 3 == 1:
            shared.swept(at)
        elif number % 3 == 2:
            shared.unmade(at)
        shared.done(shared.make(FULL), at)
        assert shared.objects == whole, at
        shared.is_so(FULL, at)
    shared.unmade()
    assert (shared.project.project_inventory(), shared.project.inventory()) == before


def test_killed_while_teams_and_slices_go_and_come_back(shared: Shared) -> None:
    """There and back again: at each moment of either way it is done again, and is as it should be."""
    shared.done(shared.make(FULL))
    away, back = (shared.calls_of(shared.make(fields)) for fields in (LESS, FULL))
    assert any("delete localqueues" in call for call in away) and any("create" in call for call in back)
    moments = moments_of(
        [f"{way} {call}" for way, calls in (("away", away), ("back", back)) for call in calls]
    )
    is_full = True
    for number, (told, moment) in enumerate(moments):
        way, _, call = told.partition(" ")
        at = (way, call, moment)
        begin, end = (FULL, LESS) if way == "away" else (LESS, FULL)
        if is_full != (begin is FULL):
            shared.done(shared.make(begin), at)
        shared.killed(shared.make(end), call, moment)
        if number % 3 == 1:
            shared.swept(at)
        shared.done(shared.make(end), at)
        shared.is_so(end, at)
        is_full = end is FULL
    shared.unmade()
