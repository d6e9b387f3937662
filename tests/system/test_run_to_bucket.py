"""A whole run whose output is a bucket, encrypted on its way: two workers save, restore and report through a store."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.keys import make_key_file
from tasks.cloud.storage import open_folder
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import serving

ROOT = Path(__file__).parents[2]

READ = """
import sys, tensorstore
store = tensorstore.KvStore.open({"driver": "ocdbt", "base": sys.argv[1]}).result()
print(len(store.list().result()), "keys")
"""


def read(url: str, base: str) -> str:
    """Returns what TensorStore finds in a checkpoint by this way to the store, or why it cannot read it."""
    env = {"TENSORSTORE_GCS_HTTP_URL": url, "GOOGLE_AUTH_TOKEN_FOR_TESTING": "fake"}
    done = subprocess.run(
        [sys.executable, "-c", READ, base],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.system
def test_a_run_lives_in_a_bucket_and_its_checkpoints_are_encrypted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, key = store.new_bucket(), tmp_path / "key.json"
    make_key_file(key)
    target = {"kind": "local", "python": sys.executable, "encryption": {"keys": {bucket: f"file:{key}"}}}
    (tmp_path / "sealed.yaml").write_text(json.dumps(target))
    # What lay in the bucket for a repeat goes with it: here it stays, to be looked at.
    store.faults({"method": "DELETE", "path": "checkpoints", "times": 10**6, "status": 204})
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
    monkeypatch.setenv("TENSORSTORE_GCS_HTTP_URL", store.url)
    monkeypatch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "fake")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    output = f"gs://{bucket}/runs"
    command = [sys.executable, "-m", "flows.cli.main", "run", "quickstart", "--no-server", "--json"]
    command += ["--target", str(tmp_path / "sealed.yaml"), "--output", output, "--run-id", "in-a-bucket"]
    done = subprocess.run(
        [*command, "--set", "num_repeats=1", "--set", "warmup=0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["report"] == f"{output}/in-a-bucket/report.html"
    folder = open_folder(f"{output}/in-a-bucket")
    samples = pd.read_parquet(io.BytesIO(folder.read("samples.parquet") or b""))
    saves = samples[(samples.operation == "save") & (samples.metric == "time_s") & ~samples.warmup]
    assert len(saves) == 2 * 1 * 2  # points × repeats × workers
    assert b"worker" in (folder.read("logs/worker-0000.log") or b"")
    assert b'"event": "serving"' in (folder.read("logs/sidecar-a1-w0001.log") or b"")
    assert b"encrypted by a key file" in (folder.read("report.html") or b"")
    points = json.loads(folder.read("points.json") or b"")
    assert points["fingerprint"]["sidecar"] == "encrypted by a key file"
    assert points["manifest"]["sidecar"]["keys"] == {bucket: "file:key.json"}

    material = json.loads(key.read_text())["key"][0]["keyData"]["value"].encode()
    names = list(folder.names(""))
    kept = [name for name in names if name.startswith("checkpoints/")]
    assert len(kept) > 10
    for name in names:
        content = store.raw(bucket, f"runs/in-a-bucket/{name}")
        assert material not in content, name
        about = store.resource(bucket, f"runs/in-a-bucket/{name}").get("metadata") or {}
        assert envelope.is_encrypted(about) is (name in kept), name
    [manifest] = [name for name in kept if name.endswith("pytree/manifest.ocdbt")]
    whole = f"runs/in-a-bucket/{manifest}"
    base = f"gs://{bucket}/{whole.removesuffix('manifest.ocdbt')}"
    assert "Error" in (around := read(store.url, base)) and " keys" not in around
    with serving(store.url, tmp_path) as proxy:  # by the same key
        assert " keys\n" in read(proxy.url, base)
        described = whole.replace("manifest.ocdbt", "_METADATA")
        plain = proxy.read(bucket, described)
        assert plain.status == 200 and "tree_metadata" in plain.json
        assert b"tree_metadata" not in store.raw(bucket, described)
