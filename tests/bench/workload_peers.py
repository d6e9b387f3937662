"""The same workload by `slicebench workload create`, really submitted, and by xpk's dry run, which asks nobody."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers import ROOT, bench_home, install
from tests.cloud.kubernetes.client import Plain
from tests.cloud.kubernetes.manifests import cluster_queue, kueue
from tests.cloud.kubernetes.nodes import tpu_pool
from tests.cloud.kubernetes.stand_in import KubernetesStandIn

XPK = "xpk==1.16.0"
TYPE, HOSTS, SLICES = "v5litepod-16", 4, 2
IMAGE = f"us-docker.pkg.dev/p/r/image@sha256:{'0' * 64}"
COMMAND = "python train.py --steps 100"
POOLS = [tpu_pool(f"np-{n}", "tpu-v5-lite-podslice", "4x4", hosts=HOSTS) for n in range(SLICES)]
"""Nodes for it: what has no place on a cluster is not submitted."""
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass(frozen=True)
class Cost:
    """Seconds from start to end, and seconds of processor of the process and all that it started."""

    wall: float
    processor: float


def furnish(cluster: KubernetesStandIn, authority: Path, token: str) -> None:
    """Gives a cluster the queue and the priority class that both name, and starts nothing in it."""
    api = Plain(cluster.url, verify=ssl.create_default_context(cafile=authority), token=token)
    api.post(f"{KUEUE}/resourceflavors", kueue("ResourceFlavor", "v5e"))
    api.post(f"{KUEUE}/clusterqueues", cluster_queue("cluster-queue", 4 * HOSTS * SLICES))
    queue = kueue("LocalQueue", "multislice-queue", clusterQueue="cluster-queue")
    api.post(f"{KUEUE}/namespaces/default/localqueues", queue)
    api.post(
        CLASSES,
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "medium"},
            "value": 500,
        },
    )
    cluster.stop("job", "scheduler", "kubelet", "garbage")


def by_us(kubeconfig: Path, name: str, home: Path) -> Cost:
    """Submits the workload to the cluster of a kubeconfig: checked there, made there, its lease kept in `home`."""
    words = ["workload", "create", name, "--context", "standin", "--kubeconfig", str(kubeconfig)]
    words += ["--type", TYPE, "--slices", str(SLICES)]
    words += ["--docker-image", IMAGE, "--command", COMMAND]
    ours = Path(sys.executable).with_name("slicebench")
    return _cost(
        [*([str(ours)] if ours.exists() else [sys.executable, "-m", "flows.cli.main"]), *words],
        {"PYTHONPATH": str(ROOT), "SLICEBENCH_HOME": str(home)},
    )


def by_xpk(python: Path, name: str, home: Path) -> Cost:
    """Has xpk render the same, and submit nothing. Without telemetry and without its search for newer versions."""
    words = [
        "workload",
        "create",
        "--dry-run",
        "--project=p",
        "--zone=us-east5-b",
        "--cluster=c",
        f"--workload={name}",
    ]
    words += [
        f"--tpu-type={TYPE}",
        f"--num-slices={SLICES}",
        f"--docker-image={IMAGE}",
        f"--command={COMMAND}",
    ]
    environment = {
        "HOME": str(home),
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "XPK_TESTER": "false",
        "TELEMETRY_ENABLED": "false",
        "TELEMETRY_TRASH_EXECUTION": "true",
        "XPK_VERSION_OVERRIDE": "v0.0.0",
        "DRY_RUN_RESOURCES_CONFIG_MAP": f"map[{TYPE}:{HOSTS * SLICES}]",
    }
    return _cost([str(python.with_name("xpk")), *words], environment)


def xpk_python() -> Path:
    """Returns the Python of a venv with xpk and nothing of ours; makes it once (some 400 MB)."""
    venv = bench_home() / f"{XPK.replace('==', '-')}-py{sys.version_info.major}{sys.version_info.minor}"
    python = venv / "bin" / "python"
    if not (venv / "complete").exists():
        shutil.rmtree(venv, ignore_errors=True)
        install(venv, [XPK])
        (venv / "complete").touch()
    return python


def _cost(command: Sequence[str], more: Mapping[str, str]) -> Cost:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with Path(os.devnull).open("w") as nothing:
        begin = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=nothing,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**clean, **more},
        )
        assert process.stderr is not None
        told = process.stderr.read()
        # With what a child has waited for of its own: xpk starts a shell for each step.
        _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)[:200]} failed: {told.decode(errors='replace')[-2000:]}")
    return Cost(wall, used.ru_utime + used.ru_stime)
