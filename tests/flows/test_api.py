"""The command's own client of a Prefect server: where the server is, and what is said when it will not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flows.api import PrefectApi, Unreachable
from flows.server import UP_FILE, Server, known_server
from runtime.contract.errors import BadInput, InfrastructureError
from tests.flows.prefect_stub import PrefectStub


def api_of(server: PrefectStub, **credentials: str) -> PrefectApi:
    return PrefectApi(Server(server.url, "a test", **credentials))


def test_the_environment_names_the_server() -> None:
    found = known_server({"PREFECT_API_URL": "http://h/api", "PREFECT_API_AUTH_STRING": "a:b"})
    assert found == Server("http://h/api", "PREFECT_API_URL", "a:b")


def test_what_slicebench_up_started_comes_next(clean_environment: Path, tmp_path: Path) -> None:
    path = clean_environment / UP_FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"api_url": "http://up/api", "auth_string": "a:b"}))
    found = known_server({"PREFECT_HOME": str(tmp_path)})
    assert found == Server("http://up/api", "slicebench up", "a:b")


def test_then_the_users_own_prefect_profile(tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text(
        'active = "team"\n[profiles.team]\nPREFECT_API_URL = "http://far/api"\nPREFECT_API_KEY = "k"\n[profiles.no]\n'
    )
    environ = {"PREFECT_HOME": str(tmp_path)}
    assert known_server(environ) == Server("http://far/api", "your Prefect profile", None, "k")
    assert known_server(environ | {"PREFECT_PROFILE": "no"}) is None


def test_where_there_is_none_there_is_none(tmp_path: Path) -> None:
    assert known_server({"PREFECT_HOME": str(tmp_path)}) is None


def test_a_torn_up_file_is_told_with_the_fix(clean_environment: Path) -> None:
    path = clean_environment / UP_FILE
    path.parent.mkdir(parents=True)
    path.write_text('{"api_url": ')
    with pytest.raises(InfrastructureError, match="delete it, then: slicebench up"):
        known_server({})


@pytest.mark.parametrize(
    ("credentials", "header"),
    [
        ({"auth_string": "user:pass"}, "Basic dXNlcjpwYXNz"),
        ({"api_key": "k"}, "Bearer k"),
        ({}, None),
    ],
)
def test_it_authenticates(server: PrefectStub, credentials: dict[str, str], header: str | None) -> None:
    with api_of(server, **credentials) as api:
        assert api.deployment_id("benchmark/adhoc") == "d1"
    assert server.authorizations == {header}


def test_a_server_that_does_not_let_us_in_is_told_with_the_fix(server: PrefectStub) -> None:
    server.auth = "Basic other"
    with api_of(server) as api, pytest.raises(InfrastructureError, match="set PREFECT_API_AUTH_STRING"):
        api.deployment_id("benchmark/adhoc")


def test_a_server_that_is_gone_is_unreachable_and_named(server: PrefectStub) -> None:
    server.close()
    with (
        api_of(server) as api,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1.*from a test.*does not answer"),
    ):
        api.deployment_id("benchmark/adhoc")


def test_a_flow_run_is_called_by_what_it_runs_where(server: PrefectStub) -> None:
    server.flow_run = {"id": "f1", "name": "pistachio-kittiwake", "parameters": {"suite": "/a/long.yaml"}}
    server.end("PENDING")
    with PrefectApi(Server(server.url, "test")) as api:
        assert api.flow_run("f1").name == "long on local"
        server.flow_run["parameters"] = {}
        assert api.flow_run("f1").name == "pistachio-kittiwake"


@pytest.mark.parametrize(
    "url", ["http://[::1/api", "http://h:port/api", "h:4200", "/api", "http://h\x01/api"]
)
def test_what_can_be_no_address_is_refused_with_where_it_is_from(url: str) -> None:
    with pytest.raises(BadInput, match=r"from PREFECT_API_URL, is no address.*http://HOST:PORT/api"):
        PrefectApi(Server(url, "PREFECT_API_URL"))


@pytest.mark.parametrize("answer", [b"<html>Please log in</html>", b"{}", b"[1]", b"\xff"])
def test_whatever_else_is_at_the_address_is_told_by_its_own_words(server: PrefectStub, answer: bytes) -> None:
    server.raw = answer
    with api_of(server) as api, pytest.raises(Unreachable, match="as Prefect's API does not.*ends in /api"):
        api.deployment_id("benchmark/adhoc")


def test_a_deployment_that_is_not_there_is_none(server: PrefectStub) -> None:
    with api_of(server) as api:
        assert api.deployment_id("benchmark/other") is None


@pytest.mark.parametrize("status", [409, 422])
def test_parameters_that_the_server_refuses_are_bad_input(server: PrefectStub, status: int) -> None:
    server.refuse = (status, {"detail": "'target' is no target"})
    with api_of(server) as api, pytest.raises(BadInput, match="'target' is no target"):
        api.create_flow_run("d1", "n", {})


def test_a_busy_server_is_asked_again(server: PrefectStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.api._PAUSES_S", (0.01, 0.01))
    server.refuse = (503, {"exception_message": "Service Unavailable"})
    server.refusals = 2
    with api_of(server) as api:
        assert api.create_flow_run("d1", "n", {}).id == "f1"
    keys = [body["idempotency_key"] for _, path, body in server.calls if path.endswith("create_flow_run")]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_flow_run_whose_start_was_not_heard_of_is_asked_for_by_the_same_key(
    server: PrefectStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.api._PAUSES_S", (0.0, 0.0))
    server.lost_answers = 2
    with api_of(server) as api:
        assert api.create_flow_run("d1", "n", {}).id == "f1"
    assert len(server.calls) == 3
    assert len({body["idempotency_key"] for _, _, body in server.calls}) == 1


def test_a_server_too_slow_to_list_its_schedules_is_asked_again(
    server: PrefectStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.api._PAUSES_S", (0.0, 0.0))
    server.lost_answers = 2
    with api_of(server) as api:
        assert api.schedules() == [("nightly", "cron 0 2 * * * (UTC)")]


def test_a_server_that_never_says_is_not_asked_for_ever(
    server: PrefectStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.api._PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr("flows.api.INSIST_S", 0.0)
    server.lost_answers = 1_000
    with api_of(server) as api, pytest.raises(Unreachable, match="whether the run was started"):
        api.create_flow_run("d1", "n", {})


def test_a_server_that_stays_busy_is_unreachable(
    server: PrefectStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.api._PAUSES_S", (0.01,))
    server.refuse = (503, {"detail": "database is locked"})
    with api_of(server) as api, pytest.raises(Unreachable, match=r"503 .*database is locked"):
        api.create_flow_run("d1", "n", {})


def test_of_a_server_that_others_use_too_only_our_pools_are_asked_about(server: PrefectStub) -> None:
    ours = {"name": {"any_": ["slicebench", "slicebench-nightly", "slicebench-reaper"]}}
    with api_of(server) as api:
        assert api.going() == []
        api.schedules()
    asked = {path: body for _, path, body in server.calls}
    assert asked["flow_runs/filter"]["work_pools"] == ours
    assert asked["deployments/filter"] == {"work_pools": ours}


def test_a_proxy_for_the_outside_is_not_asked_for_a_server_on_this_machine(
    server: PrefectStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "HTTP_PROXY", "http://127.0.0.1:1")
    with api_of(server) as api:
        assert api.deployment_id("benchmark/adhoc") == "d1"
