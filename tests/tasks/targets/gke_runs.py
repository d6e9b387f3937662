"""Makes runs in pods of a stand-in cluster whose workers are a stand-in without JAX: a bench to work at, for tests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.job import Deadlines
from tasks.cloud.storage import open_folder
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.home import ledger_uri
from tasks.config.spec import RunSpec, SourceSpec
from tasks.leases.claim import claim
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories, open_inventories
from tasks.leases.ledger import Ledger
from tasks.leases.opening import open_ledger
from tasks.stages.context import Run
from tasks.stages.provision import provision
from tasks.stages.run import run_workload
from tasks.stages.upload import upload
from tasks.targets.gke import GkeTarget
from tasks.targets.types import Image, Outcome
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.runtime.supervised import ROOT, STAND_IN
from tests.tasks.targets.local_runs import point

IMAGE = Image("container", f"registry.invalid/worker@sha256:{'0' * 64}", "python")
STANDING = ("nodes", "namespaces", "serviceaccounts", "priorityclasses")

RUN = f"run-{os.getpid()}"
"""Of this process alone: pods of a JobSet meet at a port that follows from its name, and all pods are here."""


def config(**more: Any) -> GkeTargetConfig:
    """Returns a target without a queue: two hosts of CPUs on the cluster `standin`, or of TPUs on one by name."""
    hosts = (
        {"type": "v5litepod-8"} if "cluster" in more else {"context": "standin", "type": "cpu", "nodes": 2}
    )
    fields = {
        "kind": "gke", **hosts, "image": IMAGE.reference, "queue": None, "priority": None, "cpu": "1",
        "smoke": False, **more,
    }  # fmt: skip
    return GkeTargetConfig.model_validate(fields)


@dataclass
class Pods:
    """What a test works at: a cluster (None: runs name one of GKE), a folder that its pods share, and what was said."""

    cluster: KubernetesStandIn | None
    folder: Path
    said: list[str] = field(default_factory=list)

    def run(
        self,
        run_id: str = RUN,
        *,
        do: dict[str, str] | None = None,
        say: Callable[[str], None] | None = None,
        lease_s: float = 60.0,
        **more: Any,
    ) -> Run:
        """Returns a run of two points whose workers do as they are told; `more` goes into the target."""
        shared = {"directory": str(self.folder), "host_path": str(self.folder)}
        where = {"kubeconfig": str(self.cluster.kubeconfig)} if self.cluster is not None else {}
        made = config(**{**where, "shared": shared, **more})
        spec = RunSpec(
            run_id=run_id, suite_name="tiny", suite_path="tiny.yaml",
            suite_text=json.dumps({"points": 2, "do": do or {}}),
            points=[point(0, devices=None), point(1, devices=None)],
            num_repeats=1, target_name="pods", target=made, source=SourceSpec(), output=str(self.folder),
            deadlines=Deadlines(), keep="never",
        )  # fmt: skip
        say = say or self.said.append
        target = GkeTarget(made, say=say, lease_s=lease_s, poll_s=0.05)
        return Run(spec, open_folder(f"{self.folder}/{run_id}"), target, say)


@contextmanager
def at_work(
    cluster: KubernetesStandIn, folder: Path, patch: pytest.MonkeyPatch, *, but: Sequence[str] = STANDING
) -> Iterator[Pods]:
    """A test's bench on a cluster, with a state root of its own; fails when more than these kinds is left behind."""
    patch.setenv("SLICEBENCH_HOME", str(folder / "home"))
    (folder / "out").mkdir()
    yield Pods(cluster, folder / "out")
    cluster.assert_nothing_left(but=tuple(but))


def a_ledger() -> Ledger:
    return open_ledger(ledger_uri())


def inventories(ledger: Ledger) -> Inventories:
    return open_inventories(ledger, None)


def hold(run_id: str) -> Holding:
    ledger = a_ledger()
    return claim(ledger, inventories(ledger), run_id, run_id)


def play(run: Run, holding: Holding) -> Outcome:
    """Plays the stages from provision to run."""
    return run_workload(run, upload(run, provision(run, holding), IMAGE), holding)


@contextmanager
def cluster(folder: Path, **settings: Any) -> Iterator[KubernetesStandIn]:
    """Starts a cluster in whose images `python` is one that runs the stand-in in place of JAX."""
    given = {"nodes": [{"pool": "cpu", "count": 3}], **images(folder), **settings}
    with KubernetesStandIn.started(folder, **given) as started:
        yield started


def images(folder: Path) -> dict[str, Any]:
    """Returns settings of clusters in whose images `python` is one that runs the stand-in in place of JAX."""
    bin_ = folder / "bin"
    bin_.mkdir()
    for name in ("python", "python3"):
        (bin_ / name).write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
        (bin_ / name).chmod(0o755)
    return {"python": str(bin_ / "python"), "image_env": {"PYTHONPATH": str(ROOT)}}
