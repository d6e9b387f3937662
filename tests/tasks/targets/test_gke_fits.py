"""What never fits is refused where that is sure, and warned of where machines may come, or may not be looked at."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.contract.errors import InfrastructureError, Problem
from tasks.cloud.compute import Compute, MachineType
from tasks.cloud.container_model import Cluster as GkeCluster
from tasks.cloud.container_model import Pool
from tasks.cloud.kubernetes_errors import PermissionDenied
from tasks.cloud.kubernetes_kinds import Kind
from tasks.targets import gke_cluster
from tasks.targets.gke_fits import grows, never
from tasks.targets.gke_machines import never_fits
from tasks.targets.kube_jobset import jobset
from tests.tasks.targets.kube_made import PATHWAYS, config, submission
from tests.tasks.targets.test_kube_homes import CHIPS, V5E, node, queue, slices

TWO = {"slices": 2, "priority": None}


class Cluster:
    """Has these nodes, a queue q, and config maps; what is in `denied` may not be looked at."""

    access = SimpleNamespace(name="context c")

    def __init__(self, nodes: Any = (), cq: Any = None, maps: Any = (), denied: Any = ()) -> None:
        self._nodes, self._denied, self._maps = nodes, denied, dict(maps)
        self._found = {"LocalQueue": {"spec": {"clusterQueue": "cq"}}, "ClusterQueue": cq}

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Any:
        self._look(kind)
        return self._maps.get(name) if kind.name == "ConfigMap" else self._found[kind.name]

    def list(self, kind: Kind, labels: Any = None) -> Any:
        self._look(kind)
        if kind.name == "ResourceFlavor":
            return SimpleNamespace(items=[{"metadata": {"name": name}, **one} for name, one in V5E.items()])
        return SimpleNamespace(
            items=[one for one in self._nodes if (labels or {}).items() <= one["metadata"]["labels"].items()]
        )

    def _look(self, kind: Kind) -> None:
        if kind.name in self._denied:
            raise PermissionDenied(f"may not look at {kind.name}")


@pytest.mark.parametrize(
    ("machine_type", "autoscaled", "autoprovisions", "expected"),
    [
        ("ct5lp-hightpu-4t", True, False, True),
        ("ct5lp-hightpu-4t", False, False, False),
        ("n1-standard-4", True, False, False),
        ("n1-standard-4", False, True, True),
    ],
)
def test_machines_come_by_themselves_where_gke_adds_some_of_the_type(
    machine_type: str, autoscaled: bool, autoprovisions: bool, expected: bool
) -> None:
    pool = Pool("proj", "us-east5", "mine", "np-0", "1", "RUNNING", machine_type, 0, autoscaled=autoscaled)
    there = GkeCluster(
        "proj", "us-east5", "mine", "1", "RUNNING", pools=(pool,), autoprovisions=autoprovisions
    )
    assert grows(config(type="v5litepod-16"), there) is expected


def told(cluster: Any, *, grown: bool | None = None, **fields: Any) -> list[Problem]:
    target = config(**{**TWO, "queue": None, **fields})
    return list(never(cluster, target, jobset(target, submission()), grown))


SCALES = {"cluster-autoscaler-status": {}}
LITTLE, MUCH = queue(("v5e", {CHIPS: "16"})), queue(("v5e", {CHIPS: "32"}))
EXCLUDES = {"kueue-manager-config": {"data": {"c.yaml": "resources:\n  excludeResourcePrefixes: [cpu]"}}}
COMMENTED = {"kueue-manager-config": {"data": {"c.yaml": "#resources:\n#  excludeResourcePrefixes: []"}}}
TRANSFORMS = {"kueue-manager-config": {"data": {"c.yaml": "resources:\n  transformations:\n  - input: x"}}}


@pytest.mark.parametrize(
    ("cluster", "fields", "severity", "words"),
    [
        (Cluster(slices(2)), {}, "", ""),
        (Cluster(slices(1)), {}, "error", "no place on context c: slice-job needs 2 values"),
        (Cluster(slices(1)), {"grown": True}, "warning", "no place on context c"),
        (Cluster(slices(1), maps=SCALES), {}, "warning", "no place on context c"),
        (Cluster(slices(1), maps=SCALES), {"grown": False}, "error", "no place on context c"),
        (Cluster(slices(1), denied=["ConfigMap"]), {}, "warning", "no place on context c"),
        (Cluster(slices(1), denied=["Node"]), {}, "", ""),
        (Cluster([]), {}, "", ""),
        (Cluster([node("cpu", {"a": "b"})]), {}, "error", "no node has .*; there is cpu-x"),
        (Cluster([*slices(1), node("gk3-a")]), {"memory": "500GiB"}, "warning", "500 GiB"),
        (Cluster(slices(2), MUCH), {"queue": "q"}, "", ""),
        (Cluster(slices(2), LITTLE), {"queue": "q"}, "error", "queue q of context c never has .*: the 8 pods"),
        (Cluster(slices(2), LITTLE, maps=TRANSFORMS), {"queue": "q"}, "warning", "queue q of context c never"),
        (Cluster(slices(2), LITTLE, denied=["ConfigMap"]), {"queue": "q"}, "error", "queue q of context c never"),
        (Cluster(slices(2), LITTLE, denied=["ClusterQueue"]), {"queue": "q"}, "", ""),
        (Cluster(slices(1), LITTLE, denied=["ClusterQueue"]), {"queue": "q"}, "error", "no place on context c"),
        (Cluster(slices(2), MUCH), {"queue": "q", "cpu": "1"}, "error", "has no quota of cpu"),
        (Cluster(slices(2), MUCH, maps=COMMENTED), {"queue": "q", "cpu": "1"}, "error", "has no quota of cpu"),
        (Cluster(slices(2), MUCH, maps=EXCLUDES), {"queue": "q", "cpu": "1"}, "warning", "has no quota of cpu"),
        (Cluster(slices(2), MUCH, denied=["ConfigMap"]), {"queue": "q", "cpu": "1"}, "warning", "no quota of cpu"),
    ],
)  # fmt: skip
def test_what_never_fits_is_refused_where_that_is_sure(
    cluster: Cluster, fields: dict[str, Any], severity: str, words: str
) -> None:
    found = told(cluster, **fields)
    assert [one.severity for one in found] == ([severity] if severity else []), found
    assert not words or (re.search(words, found[0].what) and found[0].why)


class Zone:
    """Knows what two machine types have, or does not answer."""

    def __init__(self, *, silent: bool = False) -> None:
        self._silent = silent

    def machine_type(self, zone: str, name: str) -> MachineType | None:
        if self._silent:
            raise InfrastructureError("no answer")
        return {
            "ct5lp-hightpu-4t": MachineType(112, 192 << 30),
            "e2-standard-16": MachineType(16, 64 << 30),
        }.get(name)


PLACE = {"name": "mine", "location": "us-east5-b", "project": "p"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"memory": "170GiB"}, ""),
        ({"memory": "192GiB"}, "does not fit machines of ct5lp-hightpu-4t: .* 192 GiB of memory, .* has 181"),
        ({"cpu": "111"}, ""),
        ({"cpu": "112"}, "each pod of slice-job asks for 112 cpu, and the largest node for it has 111.7 cpu"),
        ({"type": "n2-standard-32-2", "slices": 1, "cpu": "32"}, "asks for 32 cpu, .* has 31.85 cpu"),
        ({"type": "n2-standard-32-2", "slices": 1}, ""),
        ({"type": "n2-standard-32-2", "slices": 1, "memory": "900GiB"}, ""),  # which nobody told
        ({"make": {"queueing": {"cpu_limit": 60}}, "cpu": "8"}, "never have what .* ask for 64 cpu, .* has 60 cpu"),
        ({"make": {"queueing": {"cpu_limit": 64}}, "cpu": "8"}, ""),
        ({"make": {"queueing": {"memory_limit": "1GiB"}}, "memory": "1GiB"}, "ask for 8 GiB of memory, .* has 1 GiB"),
        ({"make": {"queueing": {"cpu_limit": 60, "install": False}}, "cpu": "8"}, ""),
        ({"pathways": PATHWAYS}, "does not fit machines of e2-standard-16: each pod of pathways-head asks for 48 cpu"),
    ],
)  # fmt: skip
def test_what_would_not_fit_machines_that_are_made_is_refused_before_they_are(
    fields: dict[str, Any], words: str
) -> None:
    place = {**PLACE, **({"make": fields["make"]} if "make" in fields else {})}
    told = {key: value for key, value in fields.items() if key != "make"}
    target = config(**{**TWO, "cluster": place, **told})
    made = gke_cluster.made_as(target)
    found = list(never_fits(made, jobset(target, submission()), cast(Compute, Zone())))
    assert [one.severity for one in found] == (["error"] if words else []), found
    assert not words or re.search(words, found[0].what), found


@pytest.mark.parametrize("compute", [None, Zone(silent=True)])
def test_where_nobody_answers_a_name_tells_the_processors(compute: Any) -> None:
    target = config(cluster=PLACE, type="n2-standard-4-2", slices=1, priority=None, cpu="4")
    [found] = never_fits(gke_cluster.made_as(target), jobset(target, submission()), compute)
    assert "asks for 4 cpu, and the largest node for it has 3.92 cpu" in found.what
