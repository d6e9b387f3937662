"""Shows that the stand-in can be served by TLS, by its own authority, to those who have the token."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest
from lightkube import Client, KubeConfig
from lightkube.resources.core_v1 import Namespace

from tests.cloud.kubernetes import certificates
from tests.cloud.kubernetes.stand_in import KubernetesStandIn


def test_only_who_trusts_its_authority_and_has_the_token_gets_in(tmp_path: Path) -> None:
    folder = certificates.make(tmp_path / "certificates")
    with KubernetesStandIn.started(tmp_path, certificates=str(folder), token="open sesame") as cluster:
        assert cluster.url.startswith("https://")
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(cluster.url)
        trusted = httpx.Client(
            base_url=cluster.url, verify=ssl.create_default_context(cafile=folder / "ca.pem")
        )
        refused = trusted.get("/api/v1/namespaces")
        assert (refused.status_code, refused.json()["reason"]) == (401, "Unauthorized")
        headers = {"authorization": "Bearer open sesame"}
        assert trusted.get("/api/v1/namespaces", headers=headers).status_code == 200
        client = Client(config=KubeConfig.from_file(cluster.kubeconfig).get("standin"), trust_env=False)
        assert "default" in [one.metadata.name for one in client.list(Namespace)]
