"""Training in pods that a workload of higher priority takes the place of: evicted, queued, admitted, gone on with."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from tasks.cloud.storage import open_folder
from tests.cloud.kubernetes.client import JOBSETS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets.test_gke_queue import make_queue, urgent
from tests.waiting import until

ROOT = Path(__file__).parents[2]
INTERVAL = 10
SUITE = f"""
suite_name: Preempted
benchmarks:
  - generator: runtime.benchmarks.training.Training
    options: {{train_steps: 400, save_interval_steps: {INTERVAL}, layers: 2, width: 64, step_s: 0.05}}
"""
PARTS = ("queue_s", "start_s", "setup_s", "restore_s", "first_step_s")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KubernetesStandIn]:
    pool = {"pool": "cpu", "count": 4}
    with KubernetesStandIn.started(tmp_path, image_env={"PYTHONPATH": str(ROOT)}, nodes=[pool]) as started:
        make_queue(Plain(started.url))
        yield started


@pytest.mark.system
def test_training_that_is_preempted_goes_on_from_its_newest_checkpoint(
    cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    shared = tmp_path / "out"
    shared.mkdir()
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "there.yaml").write_text(
        f"kind: gke\ncontext: standin\nkubeconfig: {cluster.kubeconfig}\ntype: cpu\nnodes: 2\ncpu: '1'\n"
        f"image: registry.invalid/worker@sha256:{'0' * 64}\nqueue: queue\npriority: lowest\n"
        f"shared: {{directory: {shared}, host_path: {shared}}}\n"
    )
    command = [sys.executable, "-m", "flows.cli.main", "run", str(tmp_path / "suite.yaml"), "--direct"]
    command += ["--target", str(tmp_path / "there.yaml"), "--output", str(shared), "--run-id", "taken"]
    env = {**os.environ, "SLICEBENCH_HOME": str(tmp_path / "home")}
    api = Plain(cluster.url)
    log = shared / "taken/run.log"
    with subprocess.Popen(command, cwd=ROOT, env=env) as run:

        def sees(what: Callable[[], object]) -> None:
            until(lambda: what() or run.poll() is not None, 400)
            assert run.poll() is None, log.read_text()

        sees(lambda: list(shared.glob("taken/checkpoints/*/repeat_0/20")))
        api.post(JOBSETS, urgent())
        sees(lambda: "sb-taken-e1-a2" in api.names(JOBSETS))
        api.delete(f"{JOBSETS}/urgent")
        code = run.wait(400)
    told = log.read_text()
    assert code == 0, told
    assert "attempt 1 was preempted" in told and "goes on after step" in told

    folder = open_folder(f"{shared}/taken")
    samples = pd.read_parquet(io.BytesIO(folder.read("samples.parquet") or b""))
    recovery = samples[(samples.operation == "recovery") & (samples.attempt == 2)]
    for worker in (0, 1):
        mine = recovery[recovery.worker == worker].set_index("metric").value
        assert mine["time_s"] == pytest.approx(sum(mine[part] for part in PARTS))
        assert all(mine[part] > 0 for part in PARTS)
        # Where there is time, Orbax saves the step in which it hears that it is to end: that need be no tenth one.
        assert mine["resumed_from_step"] >= 20
        # One interval between checkpoints; while one is being saved, which may take long, another.
        assert 0 <= mine["lost_steps"] <= 2 * INTERVAL
        steps = samples[(samples.worker == worker) & (samples.attempt == 2)]
        trained = steps[steps.operation.str.startswith("train_step") & (steps.metric == "time_s")]
        assert len(trained) == 399 - mine["resumed_from_step"], "what was done before is not done again"
    report = (folder.read("report.html") or b"").decode()
    assert "its hardware was taken away" in report and "waited for its turn" in report
