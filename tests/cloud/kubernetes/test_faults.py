"""Shows how the stand-in misbehaves on demand: errors, lost replies, deaths, outages, absent controllers."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest

from tests.cloud.kubernetes.manifests import config_map, jobset, kueue
from tests.cloud.kubernetes.space import Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.waiting import PATIENCE_S


def test_the_second_create_is_refused(cluster: KubernetesStandIn, api: Space) -> None:
    cluster.fault(verb="create", kind="configmaps", nth=2, action="error", code=429, retry_after=1)
    api.post("configmaps", config_map("a"))
    response = api.http.post(api.path("configmaps"), json=config_map("b"))
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")
    assert response.json()["reason"] == "TooManyRequests"
    api.get("configmaps", "b", 404)
    api.post("configmaps", config_map("b"))


@pytest.mark.parametrize(("action", "there"), [("lose_reply", True), ("drop", False)])
def test_a_reply_is_lost_after_or_before_the_effect(
    cluster: KubernetesStandIn, api: Space, action: str, there: bool
) -> None:
    cluster.fault(verb="mutating", name="a", action=action)
    with pytest.raises(httpx.TransportError):
        api.http.post(api.path("configmaps"), json=config_map("a"))
    api.get("configmaps", "a", 200 if there else 404)


def test_a_stall_outlasts_the_clients_patience(cluster: KubernetesStandIn, api: Space) -> None:
    cluster.fault(verb="get", kind="configmaps", action="stall", seconds=30)
    with pytest.raises(httpx.ReadTimeout):
        api.http.get(api.path("configmaps", "a"), timeout=httpx.Timeout(PATIENCE_S, read=0.2))
    api.get("configmaps", "a", 404)


@pytest.mark.parametrize(("action", "there"), [("kill_before", False), ("kill_after", True)])
def test_the_caller_dies_before_or_after_the_effect(
    cluster: KubernetesStandIn, api: Space, action: str, there: bool
) -> None:
    cluster.fault(verb="create", kind="configmaps", action=action)
    program = f"import httpx; httpx.post({cluster.url + api.path('configmaps')!r}, json={config_map('a')!r})"
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S).returncode == -9
    api.get("configmaps", "a", 200 if there else 404)


def test_it_is_away_for_a_while_and_all_is_as_before(cluster: KubernetesStandIn, api: Space) -> None:
    api.post("configmaps", config_map("a"))
    cluster.down()
    for _ in range(2):
        with pytest.raises(httpx.TransportError):
            api.get("configmaps", "a")
    cluster.up()
    api.get("configmaps", "a")


@pytest.mark.parametrize("controller", ["kueue", "jobset"])
def test_without_a_webhook_nothing_is_made(cluster: KubernetesStandIn, api: Space, controller: str) -> None:
    cluster.stop(controller)
    refused = api.post("jobsets", jobset("a"), 500)
    assert refused["reason"] == "InternalError"
    assert refused["message"].startswith(
        'Internal error occurred: failed calling webhook "mjobset.kb.io": failed to call webhook: Post "https://'
        f"{controller}-webhook-service"
    )
    assert "connect: connection refused" in refused["message"]
    cluster.stop()
    api.get("jobsets", "a", 404)
    api.post("jobsets", jobset("a", suspend=True))


def test_a_flavor_probes_kueues_webhook(cluster: KubernetesStandIn, api: Space) -> None:
    cluster.stop("kueue")
    refused = api.post("resourceflavors", kueue("ResourceFlavor", "probe"), 500, dryRun="All")
    assert 'failed calling webhook "mresourceflavor.kb.io"' in refused["message"]
    cluster.stop()
    api.post("resourceflavors", kueue("ResourceFlavor", "probe"), dryRun="All")


def test_it_tells_which_calls_came(cluster: KubernetesStandIn, api: Space) -> None:
    cluster.calls()
    api.post("configmaps", config_map("a"))
    api.delete("configmaps", "a")
    assert cluster.calls() == [f"create configmaps {api.space}/a", f"delete configmaps {api.space}/a"]
