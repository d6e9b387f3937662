"""TensorStore, google-cloud-storage and gcsfs work through the proxy as they are; what they write lies encrypted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.authority import BUNDLE, CERTIFICATE
from tests.cloud.fake_gcs import make_bucket
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, serving

CLIENTS = Path(__file__).with_name("clients.py")


def play(led: dict[str, str], bucket: str, *works: str) -> None:
    """Lets clients work, whom these variables lead to the proxy; they know nothing else of it."""
    leading = {
        **led,
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "fake",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "GOOGLE_CLOUD_PROJECT": "p",
    }
    command = [sys.executable, str(CLIENTS), bucket, *works]
    done = subprocess.run(
        command, env={**os.environ, **leading}, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


def by_address(url: str) -> dict[str, str]:
    return {"STORAGE_EMULATOR_HOST": url, "TENSORSTORE_GCS_HTTP_URL": url}


def test_clients_work_before_the_stand_in(proxy: Proxy, store: Store, bucket: str) -> None:
    play(by_address(proxy.url), bucket, "tensorstore", "storage", "batches", "gcsfs")
    check_encrypted(proxy, store, bucket)


def check_encrypted(proxy: Proxy, store: Store, bucket: str) -> None:
    names = [item["name"] for item in proxy.ask("GET", f"/storage/v1/b/{bucket}/o").json["items"]]
    assert len(names) > 5
    for name in names:
        assert envelope.is_encrypted(store.resource(bucket, name)["metadata"])


def test_clients_that_know_a_proxy_alone_work(proxy: Proxy, store: Store, bucket: str) -> None:
    trusted = str(proxy.certificates / BUNDLE)
    led = {"https_proxy": proxy.forward, "REQUESTS_CA_BUNDLE": trusted, "SSL_CERT_FILE": trusted}
    play(led, bucket, "tensorstore", "storage", "batches", "gcsfs")
    check_encrypted(proxy, store, bucket)


def test_curl_works_with_the_certificate_alone(
    proxy: Proxy, store: Store, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(bytes(200_000))
    through = [
        "curl",
        "-sS",
        "--fail",
        "--proxy",
        proxy.forward,
        "--cacert",
        proxy.certificates / CERTIFICATE,
    ]
    url = f"https://{bucket}.storage.googleapis.com/a%20b"
    subprocess.run([*through, "-T", tmp_path / "x", url], check=True, timeout=60)
    assert envelope.is_encrypted(store.resource(bucket, "a b")["metadata"])
    path = f"https://www.googleapis.com/storage/v1/b/{bucket}/o/a%20b?alt=media"
    done = subprocess.run([*through, "-r", "5-100004", path], check=True, timeout=60, capture_output=True)
    assert done.stdout == bytes(100_000)


def test_a_client_works_before_fake_gcs_server(gcs_url: str, tmp_path: Path) -> None:
    with serving(gcs_url, tmp_path) as proxy:
        play(by_address(proxy.url), make_bucket(gcs_url), "storage")
