"""What is told of leases that live by nobody's process: their clusters are asked once each, and not for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud.kubernetes_places import ClusterGone
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.inventory import Found
from tasks.leases.jobsets import JobSetInventory
from tasks.leases.lease import Lease, State
from tasks.leases.owner import this_process
from tasks.leases.presently import CLUSTER, Present, presently
from tasks.leases.resource import JOBSET, ResourceRef

HERE, THERE = "context c/default", "context other/default"


def of(name: str, scope: str = HERE, kind: str = JOBSET, **more: Any) -> Lease:
    ref = ResourceRef(kind, scope, name, f"uid-{name}")
    return Lease(f"{name}-e1", name, None, 1, None, State.LIVE, 0.0, None, resources=(ref,), **more)


class Clusters:
    """One has a workload that runs and one that has ended, the other does what `other` does."""

    def __init__(self, other: Any = None) -> None:
        self.asked: list[str] = []
        self._other = other

    def labelled_in(self, scope: str) -> Sequence[Found]:
        self.asked.append(scope)
        if scope == THERE:
            return cast(Sequence[Found], self._other())
        runs, ended = of("runs").resources[0], of("ended").resources[0]
        return [Found("runs-e1", runs), Found("ended-e1", ended, stays_until=500.0)]

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        return ref if ref.name == "late" else None


def found(leases: Sequence[Lease], clusters: Clusters, tmp_path: Path, **more: Any) -> dict[str, Present]:
    return dict(
        presently(DirectoryLedger(tmp_path), leases, workloads=cast(JobSetInventory, clusters), **more)
    )


def test_each_cluster_is_asked_once_for_all_of_its_workloads(tmp_path: Path) -> None:
    clusters = Clusters()
    told = found([of(name) for name in ("runs", "ended", "late", "gone")], clusters, tmp_path)
    assert [one.state for one in told.values()] == ["there", "ended", "there", "gone"]
    assert told["ended-e1"].stays_until == 500.0
    assert clusters.asked == [HERE]


def raising(error: Exception) -> Any:
    def fails() -> None:
        raise error

    return fails


@pytest.mark.parametrize(
    ("other", "state", "words"),
    [
        (raising(InfrastructureError("no way to it")), "unknown", "no way to it"),
        (raising(ClusterGone("deleted")), "gone", "its cluster is deleted"),
    ],
)
def test_one_cluster_that_does_not_answer_says_nothing_of_another(
    other: Any, state: str, words: str, tmp_path: Path
) -> None:
    told = found([of("runs"), of("x", THERE)], Clusters(other), tmp_path)
    assert (told["runs-e1"].state, told["x-e1"].state, told["x-e1"].told) == ("there", state, words)


@pytest.fixture
def silence() -> Iterator[threading.Event]:
    over = threading.Event()
    yield over
    over.set()


def test_who_does_not_answer_soon_is_told_as_not_known(tmp_path: Path, silence: threading.Event) -> None:
    told = found([of("x", THERE)], Clusters(lambda: silence.wait() and []), tmp_path, within_s=0.01)
    assert told == {"x-e1": Present("unknown", "no answer within 0.01 s")}


def test_a_cluster_that_is_kept_is_looked_at_as_such(tmp_path: Path) -> None:
    there = of("mine", "p/us-east5", CLUSTER)
    get: Any = {"mine": there.resources[0]}.get
    told = found(
        [there, of("theirs", "p/us-east5", CLUSTER)],
        Clusters(),
        tmp_path,
        get_cluster=lambda ref: get(ref.name),
    )
    assert [one.state for one in told.values()] == ["there", "gone"]


@pytest.mark.parametrize(
    "changes",
    [
        {"owner": this_process()},
        {"state": State.LEAKED},
        {"holders": ("other-e1",)},
        {"resources": (ResourceRef("directory", "here", "/x", "/x"),)},
    ],
)
def test_what_somebody_lives_by_or_looks_after_is_not_asked_about(changes: Any, tmp_path: Path) -> None:
    clusters = Clusters()
    assert found([replace(of("runs"), **changes)], clusters, tmp_path) == {}
    assert clusters.asked == []
