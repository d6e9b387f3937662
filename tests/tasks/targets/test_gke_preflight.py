"""What is said of a queue before anything is submitted to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.contract.errors import BadInput, Problem
from tasks.cloud.boards import Tensorboards
from tasks.cloud.kubernetes_errors import PermissionDenied
from tasks.cloud.kubernetes_kinds import Kind
from tasks.stages import workload_create
from tasks.targets.gke_preflight import named, preflight
from tests.cloud.container.hurried import QUICK
from tests.cloud.container.running import Gke
from tests.tasks.targets.gke_runs import config
from tests.tasks.targets.kube_made import BOARD, PATHWAYS

HELD = {"type": "Active", "status": "False", "reason": "Stopped", "message": "LocalQueue is stopped"}


class Cluster:
    """Knows one queue, and what that says of itself."""

    access = SimpleNamespace(name="context c")

    def __init__(self, conditions: list[Mapping[str, str]]) -> None:
        self._queue = {"metadata": {"name": "q"}, "status": {"conditions": conditions}}

    def find(self, kind: Kind, name: str) -> Any:
        return self._queue if name == "q" else None

    def list(self, kind: Kind) -> Any:
        return SimpleNamespace(items=[self._queue])

    def serves(self, kind: Kind) -> bool:
        return True


@pytest.mark.parametrize(
    ("conditions", "warned"),
    [([], False), ([{"type": "Active", "status": "True", "reason": "Ready"}], False), ([HELD], True)],
)
def test_a_queue_that_takes_nothing_at_present_is_a_warning(
    conditions: list[Mapping[str, str]], warned: bool
) -> None:
    found = [str(one) for one in named(Cluster(conditions), config(queue="q"))]  # type: ignore[arg-type]
    told = "warning: queue q of context c takes nothing at present (Stopped: LocalQueue is stopped)"
    assert found == ([f"{told}, a workload waits until it does"] if warned else [])


@pytest.mark.parametrize("secret", ["q", "nope"])
def test_a_secret_to_pull_by_has_to_be_there(secret: str) -> None:
    found = [str(one) for one in named(Cluster([]), config(queue="q", image_pull_secret=secret))]  # type: ignore[arg-type]
    assert [one.partition(",")[0] for one in found] == (
        ["namespace default of context c has no Secret nope"] if secret == "nope" else []
    )


def test_a_tensorboard_that_is_not_there_is_refused_and_one_that_may_not_be_looked_at_told(
    project: Gke,
) -> None:
    """Its uploader fails beside a workload that ends well: nobody would hear that nothing is uploaded."""
    Tensorboards(QUICK).make("proj/us-east5", "mine", {"displayName": "mine"}, {})
    [there] = project.project_inventory()["tensorboards"]

    def told(instance: str) -> list[str]:
        target = config(queue="q", tensorboard={**BOARD, "instance": instance})
        return [str(one) for one in named(Cluster([]), target)]  # type: ignore[arg-type]

    assert told(there) == []
    placeholder = "projects/my-project/locations/us-east5/tensorboards/1234567890"
    [refused] = told(placeholder)
    assert refused.startswith(f"there is no TensorBoard {placeholder}, nothing would be uploaded")
    project.set(forbidden=["aiplatform.tensorboards.get"])
    [warned] = told(there)
    assert warned.startswith("warning: whether tensorboard.instance is there is not known: cannot look at")
    assert ": grant roles/aiplatform.user" in warned


def test_a_warning_is_told_and_what_is_wrong_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    fits = [Problem("warning", None, "it may never fit")]
    cluster: Any = Cluster([HELD])
    monkeypatch.setattr(workload_create, "await_earlier", lambda *told, **more: None)
    monkeypatch.setattr(workload_create, "refused", lambda *told, **more: [])
    monkeypatch.setattr(workload_create, "jobset", lambda *told: {})
    monkeypatch.setattr(
        workload_create, "never", lambda *told, local: fits if local else []
    )  # not asked for again
    workload_create.check(
        cluster, config(queue="q"), SimpleNamespace(name="n", secrets={}, kept={}), said.append
    )  # type: ignore[arg-type]
    assert [one.partition(" (")[0] for one in said] == [
        "warning: queue q of context c takes nothing at present",
        "warning: it may never fit",
    ]
    fits = [Problem("error", None, "it never fits")]
    with pytest.raises(BadInput, match="it never fits"):
        workload_create.check(
            cluster, config(queue="q"), SimpleNamespace(name="n", secrets={}, kept={}), said.append
        )  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="has no queue other"):
        workload_create.check(
            cluster, config(queue="other"), SimpleNamespace(name="n", secrets={}, kept={}), said.append
        )  # type: ignore[arg-type]


class Old(Cluster):
    """Is of a version; what else is asked of it, it does not know."""

    def __init__(self, version: str) -> None:
        super().__init__([])
        self._version = version

    def version(self) -> str:
        return self._version

    def find(self, kind: Kind, name: str) -> Any:
        raise PermissionDenied("nobody may look")

    def may(self, verb: str, kind: Kind, *, sub: str = "") -> bool:
        return False


def test_a_cluster_that_knows_no_sidecars_is_refused_before_anything_is_made() -> None:
    plain, beside = config(), config(sidecar={"name": "x", "image": "i"})
    asked = workload_create.submission_of(workload_create.Wanted("w", "i"), beside)
    told = "context c is Kubernetes v1.28.9, which knows no sidecars, and x would stand beside the workers"
    found = preflight(lambda: Old("v1.28.9"), beside, asked)  # type: ignore[arg-type,return-value]
    assert [one.what for one in found] == [told]
    with pytest.raises(BadInput, match=told):
        workload_create.check(Old("v1.28.9"), beside, asked, lambda line: None)  # type: ignore[arg-type]
    for version, target in (("v1.29.0", beside), ("v1.28.9", plain)):
        made = workload_create.submission_of(workload_create.Wanted("w", "i"), target)
        found = preflight(lambda: Old(version), target, made)  # type: ignore[arg-type,return-value] # noqa: B023
        assert not [one for one in found if "sidecars" in one.what]


class Nodes(Cluster):
    """Has nodes in these pools."""

    def __init__(self, pools: list[str]) -> None:
        super().__init__([])
        self._nodes = [{"metadata": {"labels": {"cloud.google.com/gke-nodepool": pool}}} for pool in pools]

    def list(self, kind: Kind, labels: Mapping[str, str] | None = None) -> Any:
        wanted = (labels or {}).items()
        return SimpleNamespace(
            items=[one for one in self._nodes if wanted <= one["metadata"]["labels"].items()]
        )


@pytest.mark.parametrize(
    ("pools", "pool", "told"),
    [
        (["cpu-np", "np-0"], "cpu-np", ""),
        (["cpu", "np-0"], None, ""),
        (["np-0", "cpu"], "cpu-np", "no node of context c is in node pool cpu-np"),
        ([], "cpu-np", "pools with nodes: none that is named"),
    ],
)
def test_a_pool_for_the_program_of_pathways_that_has_no_node_is_a_warning(
    pools: list[str], pool: str | None, told: str
) -> None:
    cluster = {"name": "mine", "location": "us-east5-b", "create": "never"}
    wanted = config(cluster=cluster, pathways={**PATHWAYS, "head_node_pool": pool})
    found = [str(one) for one in named(Nodes(pools), wanted)]  # type: ignore[arg-type]
    assert len(found) == bool(told)
    if told:
        assert found[0].startswith("warning: ") and told in found[0]
        assert not pools or "pools with nodes: cpu, np-0" in found[0]
