"""Programs that a kubeconfig names for logging in: asked for tokens, and told with what they say."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.cloud import kubernetes_errors as errors
from tasks.cloud.kubernetes_config import by_context
from tests.tasks.cloud.kubeconfigs import VERSION, Writer, server, version, write  # noqa: F401
from tests.tasks.cloud.scripted_server import Reply, Scripted, status


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
