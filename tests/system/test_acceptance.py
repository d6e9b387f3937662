"""An acceptance whole: training through a store, with and without the encrypting proxy, stopped and started again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cloud.store.running import Store
from tests.cloud.store.running import store_server as store_server

ROOT = Path(__file__).parents[2]
OPTIONS = {
    "train_steps": 40,
    "save_interval_steps": 10,
    "layers": 2,
    "width": 64,
    "step_s": 0.05,
    "max_to_keep": 9,
}
TRAINING = {"generator": "runtime.benchmarks.training.Training", "options": OPTIONS}
SUITE = {"suite_name": "T", "benchmarks": [TRAINING]}

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


def test_training_beside_the_proxy_resumes_and_leaves_no_plaintext(
    tmp_path: Path, store_server: Store
) -> None:
    bucket, key = store_server.new_bucket(), tmp_path / "key.json"
    made = [sys.executable, "-m", "runtime.gcs_proxy", "new-key", str(key)]
    subprocess.run(made, cwd=ROOT, check=True)
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(SUITE))
    (tmp_path / "one.yaml").write_text(f"kind: local\nworkers: 1\npython: {sys.executable}\n")
    own = {"name": "own", "encryption": {"keys": {bucket: f"file:{key}"}}}
    content = {
        "name": "whole",
        "target": "./one.yaml",
        "training": "./t.yaml",
        "output": f"gs://{bucket}/runs",
        "checkpoints": 2,
        "reference": False,
        "variants": [{"name": "none"}, own],
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(content))
    done = _command(
        *("acceptance", str(tmp_path / "a.yaml")),
        SLICEBENCH_HOME=str(tmp_path / "home"),
        STORAGE_EMULATOR_HOST=store_server.url,
        TENSORSTORE_GCS_HTTP_URL=store_server.url,
        GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT="false",
        GOOGLE_CLOUD_PROJECT="p",
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
