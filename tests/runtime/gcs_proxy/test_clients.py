"""TensorStore, google-cloud-storage and gcsfs work through the proxy as they are; what they write lies encrypted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from runtime.gcs_proxy import envelope
from tests.cloud.fake_gcs import make_bucket
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, serving

CLIENTS = Path(__file__).with_name("clients.py")


def play(url: str, bucket: str, *works: str) -> None:
    """Lets clients work, who know the address of the proxy and nothing else of it."""
    leading = {
        "STORAGE_EMULATOR_HOST": url,
        "TENSORSTORE_GCS_HTTP_URL": url,
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "fake",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "GOOGLE_CLOUD_PROJECT": "p",
    }
    command = [sys.executable, str(CLIENTS), bucket, *works]
    done = subprocess.run(
        command, env={**os.environ, **leading}, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


def test_clients_work_before_the_stand_in(proxy: Proxy, store: Store, bucket: str) -> None:
    play(proxy.url, bucket, "tensorstore", "storage", "batches", "gcsfs")
    names = [item["name"] for item in proxy.ask("GET", f"/storage/v1/b/{bucket}/o").json["items"]]
    assert len(names) > 5
    for name in names:
        assert envelope.is_encrypted(store.resource(bucket, name)["metadata"])


def test_a_client_works_before_fake_gcs_server(gcs_url: str, tmp_path: Path) -> None:
    with serving(gcs_url, tmp_path) as proxy:
        play(proxy.url, make_bucket(gcs_url), "storage")
