"""The forward face: what it connects to, whom it stands in for, and what its certificates are good for."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest

from runtime.contract.errors import BadInput
from runtime.gcs_proxy.authority import CERTIFICATE
from runtime.gcs_proxy.hosts import Place, parse_place
from runtime.gcs_proxy.serve import forget_itself
from runtime.gcs_proxy.upstream import GOOGLE, Pool, parse_origin
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, Told, path, serving
from tests.waiting import until

STORAGE = "storage.googleapis.com"


def trusting(proxy: Proxy) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(proxy.certificates / CERTIFICATE))


def through(
    proxy: Proxy, host: str, method: str, target: str, body: bytes | None = None, **headers: str
) -> Told:
    """Asks a host through the forward face, as a program does that has https_proxy set."""
    parts = urlsplit(proxy.forward)
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port, timeout=60, context=trusting(proxy)
    )
    connection.set_tunnel(host)
    with contextlib.closing(connection):
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        return Told(response.status, response.headers, response.read())


def said(proxy: Proxy, text: bytes) -> bytes:
    """Returns what comes back until the connection ends."""
    parts = urlsplit(proxy.forward)
    with socket.create_connection((parts.hostname or "", parts.port or 0), 60) as sock:
        sock.sendall(text)
        answer = b""
        while more := sock.recv(65536):
            answer += more
    return answer


def test_a_host_of_cloud_storage_is_stood_in_for(proxy: Proxy, store: Store, bucket: str) -> None:
    upload = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name=x"
    told = through(proxy, STORAGE, "POST", upload, b"12345", Authorization="Bearer t0")
    assert (told.status, told.json["size"]) == (200, "5")
    assert told.json["selfLink"].startswith(f"https://{STORAGE}/storage/")
    assert b"12345" not in store.raw(bucket, "x")
    read = through(proxy, "www.googleapis.com", "GET", f"{path(bucket, 'x')}?alt=media")
    assert read.content == b"12345"
    calls = store.calls(bucket)
    assert calls[0]["headers"]["authorization"] == "Bearer t0"
    assert not [call for call in calls[1:] if "authorization" in call["headers"]], "a token was lent"
    assert any("alt=media" in call["target"] for call in calls), "the store was not asked who may read"


def test_a_session_is_where_the_program_asks(proxy: Proxy, bucket: str) -> None:
    begun = through(
        proxy, STORAGE, "POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=x", b"{}"
    )
    place = urlsplit(begun.headers["Location"])
    assert (place.scheme, place.netloc) == ("https", STORAGE)
    done = through(proxy, STORAGE, "PUT", f"{place.path}?{place.query}", b"12345")
    assert (done.status, done.json["size"]) == (200, "5")


def test_a_buckets_own_host_has_names_for_paths(proxy: Proxy, store: Store, bucket: str) -> None:
    host, name = f"{bucket}.{STORAGE}", "upload/storage/v1/b"
    assert through(proxy, host, "PUT", f"/{name}", b"12345").status == 200
    assert b"12345" not in store.raw(bucket, name)
    assert through(proxy, host, "GET", f"/{name}").content == b"12345"
    assert through(proxy, host, "POST", "/", b"a form").status == 400
    told = through(proxy, f"upload.{STORAGE}", "PUT", f"/storage/v1/b/{bucket}/o?name=y", b"12345")
    assert (told.status, told.headers["Content-Type"][:15]) == (400, "application/xml")


@pytest.mark.parametrize(
    "target, status, why",
    [
        ("example.com:443", 403, "--allow example.com lets it"),
        ("example.com:8443", 403, "--allow example.com:8443 lets it"),
        ("127.0.0.1:22", 403, "--allow 127.0.0.1:22"),
        ("[::1]:443", 403, "--allow [::1] lets it"),
        ("169.254.169.254:80", 403, "--allow 169.254"),
        ("storage.googleapis.com:80", 403, "Cloud Storage by a name"),
        ("storage.googleapis.com.evil.com:443", 403, "--allow storage.googleapis.com.evil.com"),
        ("sandbox-storage.googleapis.com:443", 403, "Cloud Storage by a name"),
        ("restricted.googleapis.com:443", 403, "Cloud Storage by a name"),
        ("private.googleapis.com:443", 403, "Cloud Storage by a name"),
        ("storage.us-east1.rep.googleapis.com:443", 403, "Cloud Storage by a name"),
        ("storage-x.p.googleapis.com:443", 403, "Cloud Storage by a name"),
        ("storage.mtls.googleapis.com:443", 403, "Cloud Storage by a name"),
        ("b.commondatastorage.googleapis.com:443", 403, "Cloud Storage by a name"),
        ("storage.cloud.google.com:443", 403, "Cloud Storage by a name"),
        ("storage.googleapis.com", 400, "a host and a port"),
        ("storage.googleapis.com:0", 400, "a host and a port"),
        ("storage.googleapis.com:99999", 400, "a host and a port"),
        ("user@storage.googleapis.com:443", 400, "a host and a port"),
        ("/storage/v1:443", 400, "a host and a port"),
    ],
)
def test_connections_to_elsewhere_are_refused_in_the_line_that_programs_show(
    store: Store, tmp_path: Path, target: str, status: int, why: str
) -> None:
    with serving(store.url, tmp_path, allowed=["*.allowed.com"]) as proxy:
        line, _, rest = said(
            proxy, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n".encode()
        ).partition(b"\r\n")
    assert line.startswith(f"HTTP/1.1 {status} ".encode()) and why.encode() in line
    assert b'"error"' in rest


def test_no_list_lets_anything_reach_cloud_storage_unseen(store: Store, tmp_path: Path) -> None:
    with serving(store.url, tmp_path, allowed=["*.googleapis.com"]) as proxy:
        line = said(
            proxy,
            b"CONNECT storage.us.rep.googleapis.com:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        )
    assert line.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "request_head",
    [
        "GET http://storage.googleapis.com/storage/v1/b/B/o/x?alt=media HTTP/1.1\r\nHost: storage.googleapis.com\r\n",
        "GET https://storage.googleapis.com/b/x HTTP/1.1\r\nHost: storage.googleapis.com\r\n",
        "GET /storage/v1/b/B/o/x HTTP/1.1\r\nHost: storage.googleapis.com\r\n",
        "CONNECT storage.googleapis.com:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n",
        "CONNECT storage.googleapis.com:443 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_what_is_no_bare_connect_is_refused(proxy: Proxy, store: Store, request_head: str) -> None:
    before = len(store.calls())
    answer = said(proxy, f"{request_head}Connection: close\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 "))
    assert len(store.calls()) == before


def test_bytes_before_the_answer_to_connect_are_refused(proxy: Proxy) -> None:
    answer = said(proxy, b"CONNECT storage.googleapis.com:443 HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01")
    assert answer.startswith(b"HTTP/1.1 400 ") and b"behind CONNECT" in answer


@pytest.mark.parametrize(
    "method, target, headers, said",
    [
        ("GET", "/storage/v1/b/bkt/o/x", {"Host": "other.com"}, "to another host than the connection"),
        ("GET", "/storage/v1/b/bkt/o/x", {"Host": f"b.{STORAGE}"}, "to another host than the connection"),
        ("CONNECT", "example.com:443", {}, "no path"),
        ("GET", f"https://{STORAGE}/storage/v1/b/bkt/o/x", {}, "no path"),
        ("GET", "//storage/v1/b/bkt/o/x", {}, "begins with two slashes"),
        ("PUT", "/b%2Fx", {}, "no bucket is called"),
        ("POST", "/upload%2Fstorage/v1/b/bkt/o?uploadType=media&name=x", {}, "no bucket is called"),
    ],
)
def test_within_a_connection_everything_is_to_its_host(
    proxy: Proxy, store: Store, method: str, target: str, headers: dict[str, str], said: str
) -> None:
    before = len(store.calls())
    told = through(proxy, STORAGE, method, target, **headers)
    assert told.status == 400 and said in told.content.decode()
    assert len(store.calls()) == before


def test_other_apis_of_the_same_host_do_not_reach_a_stand_in(proxy: Proxy, store: Store) -> None:
    before = len(store.calls())
    told = through(proxy, "www.googleapis.com", "POST", "/oauth2/v4/token", b"x")
    assert told.status == 400 and "--upstream" in told.message
    assert len(store.calls()) == before


def test_what_is_not_encrypted_goes_to_its_own_host_as_it_is(
    store: Store, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def stand_in(pool: Pool, host: str) -> Pool:
        asked.append(host)
        return Pool(parse_origin(store.url))

    monkeypatch.setattr(Pool, "at", stand_in)
    with serving(GOOGLE, tmp_path, "mapped:KEY") as proxy:
        through(proxy, "www.googleapis.com", "GET", f"/{bucket}/none?x=1")
        host = f"{bucket}.{STORAGE}"
        for _ in range(2):
            through(proxy, host, "GET", f"/{bucket}/none?y=%2F")
        assert through(proxy, f"mapped.{STORAGE}", "POST", "/", b"a form").status == 400
    assert asked == ["www.googleapis.com", host]
    assert [call["target"].partition("?")[2] for call in store.calls(f"{bucket}/none")] == [
        "x=1",
        "y=%2F",
        "y=%2F",
    ]


@contextlib.contextmanager
def echo() -> Iterator[int]:
    """A server that answers with what it was sent, once all of it came."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                came = b""
                while more := sock.recv(65536):
                    came += more
                sock.sendall(came)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_what_is_allowed_goes_through_as_it_is(store: Store, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    with echo() as port, serving(store.url, tmp_path, allowed=[f"127.0.0.1:{port}"]) as proxy:
        parts = urlsplit(proxy.forward)
        with socket.create_connection((parts.hostname or "", parts.port or 0), 60) as sock:
            sock.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += sock.recv(1)
            assert head.startswith(b"HTTP/1.1 200 ") and b"Content-Length" not in head
            sock.sendall(content)
            sock.shutdown(socket.SHUT_WR)
            came = b""
            while more := sock.recv(65536):
                came += more
    assert came == content


def test_grpc_is_told_that_it_does_not_go_through_and_asks_no_more(proxy: Proxy) -> None:
    trusted = grpc.ssl_channel_credentials((proxy.certificates / CERTIFICATE).read_bytes())
    for channel in (
        grpc.secure_channel(f"{STORAGE}:443", trusted, [("grpc.http_proxy", proxy.forward)]),
        grpc.insecure_channel(urlsplit(proxy.url).netloc),
    ):
        with channel, pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary("/google.storage.v2.Storage/ReadObject")(b"", timeout=60)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "TENSORSTORE_GCS_BACKEND=gcs" in refused.value.details()


def test_a_program_that_does_not_trust_the_proxy_is_told_of(proxy: Proxy) -> None:
    parts = urlsplit(proxy.forward)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=60)
    connection.set_tunnel(STORAGE)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.request("GET", "/")
    until(lambda: any("does not trust" in line["why"] for line in proxy.said))
    assert proxy.said[-1]["host"] == STORAGE


@pytest.mark.parametrize(
    "text, place",
    [
        ("a.com", Place("a.com", 443)),
        ("A.com:8443", Place("a.com", 8443)),
        ("*.googleapis.com", Place("googleapis.com", 443, below=True)),
        ("[::1]:8443", Place("[::1]", 8443)),
        ("[FE80::1]", Place("[fe80::1]")),
        ("bigquerystorage.googleapis.com", Place("bigquerystorage.googleapis.com")),
    ],
)
def test_hosts_that_are_allowed(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize(
    "text",
    ["", "*", "*.com", "https://a.com", "a.com:", "a.com:0", "a.com:x", "a b", "::1", "storage.googleapis.com",
     "b.storage.googleapis.com:443", "storage.googleapis.com:80", "firebasestorage.googleapis.com",
     "www.googleapis.com"],
)  # fmt: skip
def test_hosts_that_cannot_be_allowed(text: str) -> None:
    with pytest.raises(BadInput):
        parse_place(text)


def test_a_proxy_neither_asks_nor_trusts_itself() -> None:
    environ = {
        "https_proxy": "http://127.0.0.1:9080",
        "HTTPS_PROXY": "http://localhost:9080/",
        "http_proxy": "http://127.0.0.1:9081",
        "all_proxy": "http://[::1",
        "OTHER": "http://127.0.0.1:9080",
        "SSL_CERT_FILE": "/certs/../certs/ca-bundle.pem",
        "REQUESTS_CA_BUNDLE": "/etc/ca.pem",
    }
    forget_itself(environ, 9080, Path("/certs"))
    assert sorted(environ) == ["OTHER", "REQUESTS_CA_BUNDLE", "all_proxy", "http_proxy"]
