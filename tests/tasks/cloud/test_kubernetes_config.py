"""Contexts of kubeconfigs: only the named one, read only, and what stands in it."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud import kubernetes_errors as errors
from tasks.cloud.kubernetes_config import by_context
from tests.tasks.cloud.kubeconfigs import PROGRAM, Writer, config, server, version, write  # noqa: F401
from tests.tasks.cloud.scripted_server import Scripted


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
    with pytest.raises(BadInput, match="kubeconfig /absent is not there"):
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
