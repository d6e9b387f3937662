"""Contexts of kubeconfigs: only the named one, read only, and each way to log in that we say we know."""

from __future__ import annotations

import base64
import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.contract.errors import BadInput
from tasks.cloud import kubernetes_errors as errors
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import Access, by_endpoint
from tasks.cloud.kubernetes_config import by_context, contexts
from tasks.cloud.kubernetes_plain import PlainWire
from tasks.cloud.kubernetes_transport import Wire
from tasks.cloud.timing import Timing
from tests.cloud.authority import Authority
from tests.tasks.cloud.scripted_server import Reply, Scripted, scripted, status

QUICK = Timing(try_s=5.0, total_s=0.2, first_pause_s=0.01, longest_pause_s=0.05)
VERSION = {"gitVersion": "v1.36.0"}
PROGRAM = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}


def config(**parts: Any) -> dict[str, Any]:
    """Returns a kubeconfig with one context `kind-a`, its parts changed."""
    cluster = {"server": "http://127.0.0.1:1", **parts.get("cluster", {})}
    context = {"cluster": "c", "user": "u", **parts.get("context", {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "another",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [
            {"name": "kind-a", "context": context},
            {"name": "kind-b", "context": {"cluster": "gone"}},
        ],
        "users": [{"name": "u", "user": parts.get("user", {})}],
    }


Writer = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    def writes(name: str = "config", **parts: Any) -> str:
        file = tmp_path / name
        file.write_text(yaml.safe_dump(config(**parts)))
        return str(file)

    return writes


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted(lambda asked: Reply(200, VERSION)) as running:
        yield running


def version(access: Access, wire: type[Wire] = Wire) -> str:
    return Kubernetes(access, timing=QUICK, wire=wire).version()


@pytest.fixture(params=[Wire, PlainWire])
def wire(request: pytest.FixtureRequest) -> type[Wire]:
    """By either way to make requests: they must not differ."""
    found: type[Wire] = request.param
    return found


def test_a_context_is_read_from_the_file_that_is_named_and_nothing_is_written(
    write: Writer, server: Scripted
) -> None:
    file = Path(
        write(cluster={"server": f"{server.url}/"}, context={"namespace": "team"}, user={"token": "t1"})
    )
    file.chmod(0o400)
    before = (file.read_bytes(), file.stat().st_mtime_ns, sorted(file.parent.iterdir()))
    access = by_context("kind-a", str(file))
    assert (access.name, access.server, access.namespace) == ("context kind-a", server.url, "team")
    assert by_context("kind-a", str(file), "mine").namespace == "mine"
    assert version(access) == "v1.36.0"
    assert server.asked[0].headers["Authorization"] == "Bearer t1"
    assert before == (file.read_bytes(), file.stat().st_mtime_ns, sorted(file.parent.iterdir()))
    assert "t1" not in repr(access)


def test_contexts_come_from_all_files_of_the_variable_the_first_of_a_name_counting(
    write: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write("one", cluster={"server": "http://127.0.0.1:1"}), tmp_path / "two"
    more = config(cluster={"server": "http://127.0.0.1:2"})
    more["contexts"].append({"name": "other", "context": {"cluster": "d"}})
    more["clusters"].append({"name": "d", "cluster": {"server": "http://127.0.0.1:3"}})
    second.write_text(json.dumps(more))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'absent'}:{second}")
    assert by_context("kind-a").server == "http://127.0.0.1:1"
    assert by_context("other").server == "http://127.0.0.1:3"
    assert contexts() == ["kind-a", "kind-b", "other"]


def test_without_a_name_the_usual_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(BadInput, match="there is no kubeconfig: .*/.kube/config is not there"):
        by_context("kind-a")
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(json.dumps(config()))
    assert by_context("kind-a").server == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"context": {"cluster": "x"}}, "names the cluster 'x', which the kubeconfig does not have"),
        ({"context": {"user": "x"}}, "names the user 'x', which the kubeconfig does not have"),
        ({"cluster": {"server": None}}, "cluster c of context kind-a has no server"),
        ({"cluster": {"server": "nonsense"}}, "'nonsense' is no address of an API server"),
        ({"user": {"token": 5}}, "user u of the kubeconfig cannot be understood: token is not text"),
        ({"cluster": {"server": 5}}, "cluster c of the kubeconfig cannot be understood: server is not text"),
        (
            {"cluster": {"server": "https://127.0.0.1", "insecure-skip-tls-verify": "no"}},
            "insecure-skip-tls-verify is not true or false",
        ),
        ({"user": {"exec": ["x"]}}, "user u of the kubeconfig cannot be understood: exec is not a mapping"),
        ({"user": {"exec": {"command": "x"}}}, "user u: exec of the kubeconfig .*: apiVersion is missing"),
        ({"user": {"exec": {**PROGRAM, "args": "x"}}}, "args is not a list"),
        ({"user": {"exec": {**PROGRAM, "args": [5]}}}, "args holds something else than text"),
        (
            {"user": {"exec": {**PROGRAM, "env": [{"name": "A"}]}}},
            "exec of the kubeconfig .*: value is missing",
        ),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "logs in by auth-provider, which slicebench cannot"),
        ({"user": {"as": "admin"}}, "logs in by as, which slicebench cannot"),
        (
            {"cluster": {"server": "https://127.0.0.1", "certificate-authority": "absent.pem"}},
            "the certificates of context kind-a cannot be read",
        ),
        (
            {"cluster": {"server": "https://127.0.0.1", "certificate-authority-data": "bm90aGluZw=="}},
            "the certificates of context kind-a cannot be read",
        ),
        (
            {"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v9", "command": "x"}}},
            "through x in version client.authentication.k8s.io/v9, which is not known",
        ),
        (
            {"cluster": {"server": "http://10.1.2.3"}, "user": {"token": "t"}},
            "our token would be read by others",
        ),
    ],
)
def test_what_a_context_lacks_is_told(write: Writer, parts: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        by_context("kind-a", write(**parts))


def test_a_context_that_is_not_there_is_answered_by_those_that_are(write: Writer, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no context 'kind-aa': .* has kind-a, kind-b, did you mean kind-a?"):
        by_context("kind-aa", write())
    with pytest.raises(BadInput, match="there is no kubeconfig /absent"):
        by_context("kind-a", "/absent")
    (tmp_path / "empty").write_text("{}")
    with pytest.raises(BadInput, match="has none at all"):
        by_context("kind-a", str(tmp_path / "empty"))


@pytest.mark.parametrize(
    "text", ["users: [{user: {token: hunter2", "- a\n", "!!python/object:os.system x", "\0"]
)
def test_what_is_no_kubeconfig_is_told_without_its_content(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(BadInput, match="kubeconfig") as told:
        by_context("kind-a", str(tmp_path / "config"))
    assert "hunter2" not in str(told.value)


def test_a_token_in_a_file_is_read_anew(write: Writer, server: Scripted, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t1\n")
    access = by_context("kind-a", write(cluster={"server": server.url}, user={"tokenFile": "token"}))
    version(access)
    (tmp_path / "token").write_text("t2\n")
    version(access)
    assert [one.headers["Authorization"] for one in server.asked] == ["Bearer t1", "Bearer t2"]
    (tmp_path / "token").unlink()
    with pytest.raises(errors.PermissionDenied, match="token .* cannot be read"):
        version(access)


def test_user_and_password_are_sent_as_such(write: Writer, server: Scripted) -> None:
    access = by_context(
        "kind-a", write(cluster={"server": server.url}, user={"username": "jan", "password": "p"})
    )
    version(access)
    assert server.asked[0].headers["Authorization"] == "Basic " + base64.b64encode(b"jan:p").decode()


def program(folder: Path, body: str) -> dict[str, Any]:
    """Returns an exec entry for a program that counts its starts."""
    file = folder / "login"
    file.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nopen({str(folder / 'starts')!r}, 'a').write('x')\n{body}\n"
    )
    file.chmod(0o755)
    version = "client.authentication.k8s.io/v1beta1"
    return {
        "apiVersion": version,
        "command": str(file),
        "args": ["get-token"],
        "env": [{"name": "WHO", "value": "jan"}],
        "installHint": "get it there",
    }


PRINTS = (
    "assert sys.argv[1:] == ['get-token'] and 'KUBERNETES_EXEC_INFO' in os.environ\n"
    "n = len(open(sys.argv[0].replace('login', 'starts')).read())\n"
    "print(json.dumps({'status': {'token': os.environ['WHO'] + str(n), 'expirationTimestamp': '%s'}}))"
)


def test_a_program_is_asked_for_the_token_until_that_expires_or_is_refused(
    write: Writer, server: Scripted, tmp_path: Path
) -> None:
    user = {"exec": program(tmp_path, PRINTS % "2999-01-01T00:00:00Z")}
    access = by_context("kind-a", write(cluster={"server": server.url}, user=user))
    version(access)
    version(access)
    server.answers(status(401, "Unauthorized", "no"), Reply(200, VERSION))
    version(access)
    told = [one.headers["Authorization"] for one in server.asked]
    assert told == ["Bearer jan1"] * 3 + ["Bearer jan2"]
    user = {"exec": program(tmp_path, PRINTS % "2001-01-01T00:00:00Z")}
    access = by_context("kind-a", write(cluster={"server": server.url}, user=user))
    version(access)
    version(access)
    assert [one.headers["Authorization"] for one in server.asked[4:]] == ["Bearer jan3", "Bearer jan4"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("sys.exit('log in first')", "ended with code 1: log in first"),
        ("print('hello')", "printed no token"),
        ('print(\'{"status": {"clientCertificateData": "x"}}\')', "takes no client certificates"),
    ],
)
def test_a_program_that_gives_no_token_is_told_with_what_it_says(
    write: Writer, server: Scripted, tmp_path: Path, body: str, told: str
) -> None:
    access = by_context(
        "kind-a", write(cluster={"server": server.url}, user={"exec": program(tmp_path, body)})
    )
    with pytest.raises(errors.PermissionDenied, match=told):
        version(access)


def test_a_program_that_is_not_installed_is_told_with_how_to_get_it(
    write: Writer, server: Scripted, tmp_path: Path
) -> None:
    entry = {**program(tmp_path, ""), "command": "no-such-program"}
    access = by_context("kind-a", write(cluster={"server": server.url}, user={"exec": entry}))
    with pytest.raises(errors.PermissionDenied, match="no-such-program is not installed here.*get it there"):
        version(access)


# TLS


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
