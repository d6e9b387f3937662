"""For tests: a running stand-in for GKE's API, its settings, its faults, and what it saw."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.container import world
from tests.cloud.container.behind import ENDED, credentials
from tests.cloud.container.store import Store
from tests.cloud.handles import Handles, serving
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.cloud.project.policies import policy


class Gke(Handles):
    """Handles of a running stand-in."""

    def __init__(self, folder: Path, endpoint: str, compute: str, project: str) -> None:
        super().__init__(Store(folder))
        self.endpoint, self.compute, self.project = endpoint, compute, project

    def put(
        self,
        name: str,
        *,
        location: str = "us-east5",
        zones: Sequence[str] = ("us-east5-b",),
        labels: dict[str, str] | None = None,
        pools: Sequence[dict[str, Any]] = (),
    ) -> str:
        """Puts a running cluster there that nobody here made; returns its full name."""
        key = f"projects/proj/locations/{location}/clusters/{name}"
        spec = {"name": name, "resource_labels": labels or {}, "node_pools": list(pools)}
        with self.store.changing() as state:
            made = world.new_cluster(state, key, spec, list(zones))
            made["status"] = "RUNNING"
            for pool in made["pools"].values():
                pool.update(status="RUNNING", nodes=pool["target"])
        return key

    def hold(self, *types: str) -> None:
        """Lets operations of these types stay under way until `let_end`."""
        self.set(hold=list(types))

    def let_end(self, after_s: float) -> None:
        """Lets those that are under way end, so many seconds from now, and others as they usually do."""
        with self.store.changing() as state:
            state["settings"]["hold"] = []
            for one in state["operations"].values():
                if one["status"] != "DONE":
                    one["due"] = time.time() + after_s

    def spoil(self, cluster: str, pool: str = "", status: str = "ERROR") -> None:
        """Puts a node pool into a bad state, as a stockout after the fact does; or the cluster itself."""
        with self.store.changing() as state:
            stored = next(
                one for key, one in state["clusters"].items() if key.endswith(f"/clusters/{cluster}")
            )
            words = "[GCE_STOCKOUT]: not enough resources available"
            spoiled = stored["pools"][pool] if pool else stored
            spoiled.update(status=status, message=words, conditions=[["GCE_STOCKOUT", words]])

    def resize(self, cluster: str, pool: str, nodes: int) -> None:
        """Gives a node pool another size, as somebody does by hand."""
        with self.store.changing() as state:
            for key, one in state["clusters"].items():
                if key.endswith(f"/clusters/{cluster}"):
                    one["pools"][pool].update(nodes=nodes, target=nodes)

    def vanish(self, cluster: str, pool: str = "") -> None:
        """Removes a cluster or node pool without a trace."""
        with self.store.changing() as state:
            for key in [key for key in state["clusters"] if key.endswith(f"/clusters/{cluster}")]:
                if pool:
                    del state["clusters"][key]["pools"][pool]
                else:
                    del state["clusters"][key]

    def inventory(self) -> list[str]:
        """Returns the names of all clusters and node pools, in whatever state, and of policies."""
        with self.store.changing() as state:
            world.advance(state, time.time())
            pools = [
                f"{key}/nodePools/{name}" for key, one in state["clusters"].items() for name in one["pools"]
            ]
            return sorted((*state["clusters"], *pools, *state["policies"]))

    def project_inventory(self) -> dict[str, Any]:
        """Returns what a project has beside clusters: names by kind, and who has which role on what."""
        with self.store.changing() as state:
            world.advance(state, time.time())
            parts = state["project"]
            kinds = ("networks", "subnetworks", "routers", "firewalls", "accounts", "buckets", "repositories")
            names = {kind: sorted(parts[kind]) for kind in (*kinds, "tensorboards")}
            roles = {
                f"{what}: {one['role']}: {member}"
                for what, policy in parts["policies"].items()
                for one in policy["bindings"]
                for member in one["members"]
            }
            return {**{kind: found for kind, found in names.items() if found}, "roles": sorted(roles)}

    def pools(self, cluster: str) -> dict[str, str]:
        """Returns the states of a cluster's pools, by their names."""
        with self.store.changing() as state:
            world.advance(state, time.time())
            return {
                name: pool["status"]
                for key, one in state["clusters"].items()
                if key.endswith(f"/clusters/{cluster}")
                for name, pool in one["pools"].items()
            }

    def kubernetes(self, cluster: str) -> KubernetesStandIn:
        """Returns what is behind a cluster, where the setting `kubernetes` says that something is."""
        state = self.store.read()
        [behind] = [
            one["kubernetes"]
            for key, one in state["clusters"].items()
            if key.endswith(f"/clusters/{cluster}")
        ]
        folder = Path(behind["folder"])
        return KubernetesStandIn(
            None, behind["url"], behind["control"], folder / "kubeconfig", folder, behind["mark"]
        )

    def behind(self) -> list[str]:
        """Returns the names of the clusters that something is behind."""
        clusters = self.store.read()["clusters"]
        return sorted(key.rsplit("/", 1)[1] for key, one in clusters.items() if "kubernetes" in one)

    def ended(self) -> list[dict[str, Any]]:
        """Returns of each cluster that is gone with what was behind it: the calls seen there, and what was left."""
        file = self.store.folder / ENDED
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        born = self.store.read()["born"]
        return [line for line in lines if line["born"] == born]

    def credentials(self) -> Path:
        """Returns a file of credentials that those behind the clusters take."""
        file = self.store.folder / "credentials.json"
        if not file.exists():
            credentials(file, int((self.store.folder / "token_port").read_text()))
        return file

    def accelerator(self, pod: str, metric: str, values: dict[float, float], **more: str) -> None:
        """Puts what an accelerator of a pod was like at these times there, as GKE's agents write it."""
        points = [
            {
                "interval": {"endTime": datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")},
                "value": {"int64Value": str(round(value))},
            }
            for at, value in values.items()
        ]
        place = {"location": "us-east5", "cluster_name": "mine", "namespace_name": "training"}
        named = {**place, "pod_name": pod, "container_name": "worker"}
        labels = {"accelerator_id": "0", "make": "google", "model": "tpu-v5-lite-podslice", **more}
        with self.store.changing() as state:
            state["project"]["series"].append(
                {
                    "metric": {"type": f"kubernetes.io/container/accelerator/{metric}", "labels": labels},
                    "resource": {"type": "k8s_container", "labels": {"project_id": "proj", **named}},
                    "points": points,
                }
            )

    def forget(self) -> None:
        """Forgets the requests seen so far."""
        self.store.forget()

    def mutations(self) -> list[dict[str, Any]]:
        """Returns the mutating requests seen that were not refused: for the moment, or as what they meant was gone."""
        refused = ("FAILED_PRECONDITION", "RESOURCE_EXHAUSTED", "NOT_FOUND")
        return [one for one in self.store.requests() if one["mutating"] and one["outcome"] not in refused]


@contextmanager
def running(folder: Path) -> Iterator[Gke]:
    """Serves GKE's API from a process of its own while the block runs."""
    with serving("container", folder, ends_s=20):  # so long may what is behind its clusters take to end
        ports = ((folder / name).read_text() for name in ("port", "compute", "project"))
        yield Gke(folder, *(f"127.0.0.1:{port}" for port in ports))


@pytest.fixture(scope="session")
def gke_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gke]:
    """One stand-in for all tests of a process."""
    with running(tmp_path_factory.mktemp("gke")) as gke:
        yield gke


@pytest.fixture
def project(gke: Gke, monkeypatch: pytest.MonkeyPatch) -> Gke:
    """The same with all that a project has beside clusters, which clusters need to be there."""
    monkeypatch.setenv("SLICEBENCH_GOOGLE_ENDPOINT", gke.project)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{gke.project}")
    gke.set(whole=True)
    with gke.store.changing() as state:
        policy(state, "projects/proj")  # that of its owner
    return gke


@pytest.fixture
def gke(gke_server: Gke, monkeypatch: pytest.MonkeyPatch) -> Gke:
    """The stand-in, as new: nothing in it, no faults; this process's environment leads to it."""
    monkeypatch.setenv("SLICEBENCH_CONTAINER_ENDPOINT", gke_server.endpoint)
    monkeypatch.setenv("SLICEBENCH_COMPUTE_ENDPOINT", gke_server.compute)
    monkeypatch.setenv("SLICEBENCH_PROJECT", "proj")
    gke_server.store.reset()
    return gke_server
