"""An acceptance whole: training through a store, with and without the encrypting proxy, stopped and started again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cloud.sshd import Sshd, missing, serve_ssh, target_yaml
from tests.cloud.store.running import Store
from tests.cloud.store.running import store_server as store_server
from tests.cloud.tpu.leasing import ZONE
from tests.cloud.tpu.running import Cloud
from tests.system.trained import SUITE, ways_to
from tests.tasks.targets.ssh_runs import host_folder, python_with_jax

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system


def _command(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flows.cli.main", *words, "--direct", "--json"],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=900,
    )


@contextmanager
def _hosts(count: int) -> Iterator[tuple[list[Sshd], Path]]:
    """Yields real sshd of this machine, and a folder that their user owns."""
    if reason := missing():
        pytest.skip(reason)
    with serve_ssh(count, user=python_with_jax()[0]) as hosts, host_folder() as folder:
        yield hosts, folder


@pytest.fixture(params=["local", "ssh", "tpu_vm"])
def target(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """One worker here, two hosts, or a TPU VM that each run makes and gives back."""
    if request.param == "local":
        yield {"kind": "local", "workers": 1, "python": sys.executable}
    elif request.param == "ssh":
        with _hosts(2) as (hosts, folder):
            yield yaml.safe_load(target_yaml(hosts, python_with_jax()[1])) | {"folder": str(folder / "home")}
    else:
        cloud: Cloud = request.getfixturevalue("tpu_cloud")
        with _hosts(1) as ([host], folder):
            host.key.with_suffix(".pub").write_text("")
            keys = f"{host.key}.pub"
            with cloud.store.changing() as world:
                world["hosts"] = [{"address": host.address, "host_key": host.pin, "authorized_keys": keys}]
            yield {
                "kind": "tpu_vm", "type": "v6e-1", "zones": [ZONE], "platform": "cpu", "user": host.user,
                "ssh_port": host.port, "folder": str(folder / "home"), "python": python_with_jax()[1], "slices": 1,
            }  # fmt: skip
            assert cloud.inventory() == [], "what each run made is gone"


def test_training_beside_the_proxy_resumes_and_leaves_no_plaintext(
    tmp_path: Path, store_server: Store, target: dict[str, Any]
) -> None:
    bucket, key = store_server.new_bucket(), tmp_path / "key.json"
    made = [sys.executable, "-m", "runtime.gcs_proxy", "new-key", str(key)]
    subprocess.run(made, cwd=ROOT, check=True)
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(SUITE))
    (tmp_path / "there.yaml").write_text(yaml.safe_dump(target))
    own = {"name": "own", "encryption": {"keys": {bucket: f"file:{key}"}}}
    content = {
        "name": "whole",
        "target": "./there.yaml",
        "training": "./t.yaml",
        "output": f"gs://{bucket}/runs",
        "checkpoints": 2,
        "reference": False,
        "env": [f"{name}={value}" for name, value in ways_to(store_server).items()],
        "variants": [{"name": "none"}, own],
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(content))
    done = _command(
        "acceptance",
        str(tmp_path / "a.yaml"),
        SLICEBENCH_HOME=os.environ["SLICEBENCH_HOME"],
        **ways_to(store_server),
    )
    assert done.returncode in (0, 4), done.stderr  # what it costs on this machine proves nothing
    found = json.loads(done.stdout)
    proved = {
        (variant["variant"], check["name"]): check["passed"]
        for variant in found["found"]["variants"]
        for check in variant["checks"]
    }
    assert len(proved) == 6 and set(proved.values()) == {True}, done.stderr
    assert b"<html" in store_server.raw(bucket, f"runs/{found['folder'].rpartition('/')[2]}/report.html")
    assert all(variant["objects"] > 1 for variant in found["found"]["variants"])
