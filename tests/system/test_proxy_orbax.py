"""Orbax's checkpoints from four processes through the encrypting proxy, by its address or https_proxy: bit-equal."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.authority import BUNDLE
from tests.cloud.store.running import ROOT, Store
from tests.runtime.gcs_proxy.asking import Proxy, decrypted, serving
from tests.system.prefect_station import PATIENCE_S

pytestmark = pytest.mark.system
COUNT = 4


def led(proxy: Proxy, face: str) -> Mapping[str, str]:
    """Returns what leads the clients of Orbax to the proxy, and to nothing else."""
    if face == "reverse":
        return {"STORAGE_EMULATOR_HOST": proxy.url, "TENSORSTORE_GCS_HTTP_URL": proxy.url}
    trusted = str(proxy.certificates / BUNDLE)
    heeds = json.dumps({"token": "anon", "session_kwargs": {"trust_env": True}})
    return {
        "https_proxy": proxy.forward,
        "grpc_proxy": "",  # or the connections between the processes of JAX would go there
        "REQUESTS_CA_BUNDLE": trusted,
        "SSL_CERT_FILE": trusted,
        "FSSPEC_GCS": heeds,
        "FSSPEC_GS": heeds,
    }


@pytest.mark.parametrize("face", ["reverse", "forward"])
def test_four_processes_restore_bit_by_bit_what_they_saved(store: Store, tmp_path: Path, face: str) -> None:
    bucket = store.new_bucket()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with serving(store.url, tmp_path, buffer_mib=40) as proxy:
        environment = {
            **os.environ,
            **led(proxy, face),
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "fake",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "GOOGLE_CLOUD_PROJECT": "p",
        }
        program = str(Path(__file__).with_name("orbax_by_four.py"))
        processes = [
            subprocess.Popen(
                [sys.executable, program, str(number), str(COUNT), port, f"gs://{bucket}/run"],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number in range(COUNT)
        ]
        try:
            said = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        for process, text in zip(processes, said, strict=True):
            assert process.returncode == 0 and text.count("is bit-equal") == 4, text[-4000:]
        items = proxy.ask("GET", f"/storage/v1/b/{bucket}/o").json["items"]
        names = {item["name"]: int(item["size"]) for item in items}
        assert {f"run/{kind}/" for kind in ("ocdbt-zarr", "files-zarr3")} < {
            name[: name.find("/", 4) + 1] for name in names
        }
        for name, size in names.items():
            resource = store.resource(bucket, name)
            assert envelope.is_encrypted(resource["metadata"]), name
            assert len(decrypted(proxy, store.raw(bucket, name), resource)) == size
