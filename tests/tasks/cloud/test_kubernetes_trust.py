"""Which server is trusted, who is shown to it, and through whom it is reached."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud import kubernetes_errors as errors
from tasks.cloud.kubernetes_access import by_endpoint
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_transport import Wire
from tests.cloud.authority import Authority
from tests.tasks.cloud.kubeconfigs import VERSION, Writer, server, version, wire, write  # noqa: F401
from tests.tasks.cloud.scripted_server import Reply, Scripted, scripted


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@contextmanager
def tls_server(authority: Authority, folder: Path, name: str = "api", demand: bool = False) -> Iterator[str]:
    """Serves the version over TLS; `demand`: clients need a certificate of the same authority."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(VERSION).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    authority.furnish(folder, name)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    if demand:
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *words: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_is_trusted_by_the_authority_of_its_cluster_only(
    write: Writer, tmp_path: Path, wire: type[Wire]
) -> None:
    authority = Authority()
    with tls_server(authority, tmp_path) as url:
        data = {"server": url, "certificate-authority-data": b64(authority.pem)}
        assert version(by_context("kind-a", write(cluster=data)), wire) == "v1.36.0"
        file = {"server": url, "certificate-authority": "ca.pem"}  # from where the kubeconfig lies
        assert version(by_context("kind-a", write(cluster=file)), wire) == "v1.36.0"
        careless = {"server": url, "insecure-skip-tls-verify": True}
        assert version(by_context("kind-a", write(cluster=careless)), wire) == "v1.36.0"
        with pytest.raises(errors.Untrusted, match="certificate is not trusted .*; get its kubeconfig again"):
            version(
                by_context(
                    "kind-a", write(cluster={**data, "certificate-authority-data": b64(Authority().pem)})
                ),
                wire,
            )
        assert (
            version(by_endpoint("cluster x", url, authority.pem.decode(), lambda refused: "t"), wire)
            == "v1.36.0"
        )
        with pytest.raises(errors.Untrusted):
            version(by_endpoint("cluster x", url, None, lambda refused: "t"), wire)


def test_a_server_under_another_name_than_its_address_is_trusted_by_the_name_that_is_told(
    write: Writer, tmp_path: Path
) -> None:
    authority = Authority()
    with tls_server(authority, tmp_path, name="kubernetes") as url:
        data = {"server": url, "certificate-authority-data": b64(authority.pem)}
        with pytest.raises(errors.Untrusted):
            version(by_context("kind-a", write(cluster=data)))
        assert (
            version(by_context("kind-a", write(cluster={**data, "tls-server-name": "kubernetes"})))
            == "v1.36.0"
        )


def test_client_certificates_are_shown(write: Writer, tmp_path: Path, wire: type[Wire]) -> None:
    authority = Authority()
    certificate, key = authority.issue("jan")
    with tls_server(authority, tmp_path, demand=True) as url:
        cluster = {"server": url, "certificate-authority-data": b64(authority.pem)}
        user = {"client-certificate-data": b64(certificate), "client-key-data": b64(key)}
        assert version(by_context("kind-a", write(cluster=cluster, user=user)), wire) == "v1.36.0"
        (tmp_path / "jan.pem").write_bytes(certificate)
        (tmp_path / "jan.key").write_bytes(key)
        user = {"client-certificate": "jan.pem", "client-key": "jan.key"}
        assert version(by_context("kind-a", write(cluster=cluster, user=user)), wire) == "v1.36.0"
        with pytest.raises(errors.KubernetesError):
            version(by_context("kind-a", write(cluster=cluster)), wire)


def test_an_authority_that_is_none_is_bad_input() -> None:
    with pytest.raises(BadInput, match="cluster x: the certificate of its authority cannot be read"):
        by_endpoint("cluster x", "1.2.3.4", "nonsense", lambda refused: "t")


def test_proxies_are_those_of_the_environment_and_none_on_this_machine(
    write: Writer, server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted(lambda asked: Reply(200, {"gitVersion": "by proxy"})) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "10.0.0.0/8,.internal")
        assert version(by_context("kind-a", write(cluster={"server": server.url}))) == "v1.36.0"
        assert version(by_context("kind-a", write(cluster={"server": "http://api.test"}))) == "by proxy"
        for spared in ("http://10.2.3.4:1", "http://api.internal:1"):
            assert by_context("kind-a", write(cluster={"server": spared})).via() is None
        explicit = {"server": server.url, "proxy-url": proxy.url}
        assert version(by_context("kind-a", write(cluster=explicit))) == "by proxy"
