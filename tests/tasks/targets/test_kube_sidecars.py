"""Containers and Jobs beside the worker: dumps, metrics and TensorBoard outlive it, and hold up no end."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tasks.targets.kube_check import checked
from tests.tasks.targets.kube_made import (
    BOARD,
    expanded,
    job_of,
    made,
    main_of,
    pod_of,
    seen,
)
from tests.waiting import PATIENCE_S, until


def test_dumps_are_copied_by_a_container_that_outlives_the_worker() -> None:
    jobset = made({"debug_dump": {"to": "gs://bucket/dumps"}, "env": {"XLA_FLAGS": "--xla_a=1"}})
    env = seen(main_of(jobset))
    assert env["XLA_FLAGS"] == "--xla_a=1 --xla_dump_to=/xla-dump"
    (copier,) = pod_of(jobset)["spec"]["initContainers"]
    assert copier["restartPolicy"] == "Always"
    assert seen(copier, {"metadata.name": "pod-1"}) == {
        "FROM": "/xla-dump",
        "TO": "gs://bucket/dumps",
        "EVERY_S": "60",
        "POD_NAME": "pod-1",
    }
    assert checked(jobset) == []
    given = seen(main_of(made({"debug_dump": {"to": "gs://bucket"}}, env={"XLA_FLAGS": "-b"})))
    assert given["XLA_FLAGS"] == "-b --xla_dump_to=/xla-dump"


@pytest.mark.parametrize(
    ("workers", "asked"),
    [
        ({}, {}),
        ({"cpu": "4", "memory": "8GiB"}, {"cpu": "50m", "memory": str(128 << 20)}),
        ({"memory": "8GiB"}, {"memory": str(128 << 20)}),
    ],
)
def test_containers_beside_workers_ask_for_what_these_ask_for_and_no_more(
    workers: dict[str, Any], asked: dict[str, str]
) -> None:
    """A quota of memory admits no pod with a container that asks for none; a queue of chips alone, none that asks."""
    direct = {"type": "h100-80gb-8", "nodes": 2, "slices": 1, "gpu_networks": ["a", "b", "c", "d"]}
    beside = {"debug_dump": {"to": "gs://bucket"}, "ops_agent": {}}
    jobset = made({**direct, **beside, **workers})
    assert checked(jobset) == []
    containers = pod_of(jobset)["spec"]["initContainers"]
    assert len(containers) == 3
    assert [one.get("resources", {}) for one in containers] == [{"requests": asked} if asked else {}] * 3


def test_the_copier_copies_meanwhile_and_once_more_at_its_end(tmp_path: Path) -> None:
    (copier,) = pod_of(made({"debug_dump": {"to": "gs://bucket/dumps"}}))["spec"]["initContainers"]
    log = tmp_path / "log"
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexit 1\n')  # a copy that fails does not end it
    gcloud.chmod(0o755)
    env = {**seen(copier), "POD_NAME": "pod-1", "EVERY_S": "0.1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = subprocess.Popen([expanded(word, env) for word in copier["command"]], env=env)
    try:
        until(lambda: log.exists() and len(log.read_text().splitlines()) >= 2)
        before = len(log.read_text().splitlines())
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        lines = log.read_text().splitlines()
        assert len(lines) > before
        assert set(lines) == {"storage rsync --recursive /xla-dump gs://bucket/dumps/pod-1"}
    finally:
        process.kill()


def test_the_collector_reads_the_host_and_ends_after_the_worker() -> None:
    jobset = made({"ops_agent": {"interval_s": 30}})
    (agent,) = pod_of(jobset)["spec"]["initContainers"]
    told = json.loads(seen(agent)["COLLECTOR"])
    assert told["receivers"]["hostmetrics"]["collection_interval"] == "30s"
    assert set(told["receivers"]["hostmetrics"]["scrapers"]) >= {"cpu", "memory", "disk", "network"}
    assert agent["restartPolicy"] == "Always" and agent["volumeMounts"][0]["readOnly"] is True
    assert checked(jobset) == []


def test_an_uploader_does_not_hold_up_success() -> None:
    jobset = made({"tensorboard": BOARD})
    assert jobset["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["slice-job"]}
    job = job_of(jobset, "tensorboard")
    assert job["completions"] == 1 and job["backoffLimit"] > 100 and "podFailurePolicy" not in job
    assert "--experiment_name=run-1" in main_of(jobset, "tensorboard")["command"]
    assert "nodeSelector" not in pod_of(jobset, "tensorboard")["spec"]
    assert checked(jobset) == []
