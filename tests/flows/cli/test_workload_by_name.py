"""Workloads on a cluster of GKE by its name, as a user goes about it: no kubeconfig, GKE is asked where it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flows.cli.main import main
from tasks.leases.lease import State
from tests.cloud.container.running import Gke
from tests.flows.cli.submitting import IMAGE, STAYS, python
from tests.flows.cli.test_workload_lease import lease_of
from tests.waiting import until


@pytest.fixture
def call(gke: Gke, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command on the cluster called bench; returns its exit code, what it printed and what it said."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gke.credentials()))
    monkeypatch.setenv("KUBECONFIG", "/dev/null/none")
    gke.set(kubernetes={"nodes": [{"pool": "cpu", "count": 2}]})
    gke.put("bench")
    until(lambda: "bench" in gke.behind())

    def run(command: str, *words: str, cluster: str = "bench") -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*command.split(), *(["--cluster", cluster] if cluster else []), *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


CPU = ("--type", "cpu", "--nodes", "1", "--queue", "none", "--priority", "none", "--docker-image", IMAGE)


def test_a_workload_lives_its_life_on_a_cluster_by_name(gke: Gke, call: Any) -> None:
    code, _, said = call("workload create w", *CPU, "--", "x", cluster="nosuch")
    assert code == 2 and "there is no cluster nosuch in proj" in said
    code, _, said = call("workload list", "--location", "us-east5", cluster="nosuch")
    assert code == 2 and "there is no cluster nosuch in us-east5 of proj" in said
    code, out, _ = call("workload create w", *CPU, "--env", "A_TOKEN=hunter2", "--json", *python(STAYS))
    told = json.loads(out)
    [ref] = lease_of("w").resources
    assert code == 0 and "bench" in told["links"]["cluster"] and ref.uid == told["uid"]
    assert ref.scope.startswith("cluster bench#") and ref.scope.endswith(" of proj in us-east5/default")
    until(lambda: "up" in call("workload logs w")[1])
    assert "RUNNING" in call("workload list")[1]
    assert call("workload explain w")[1].startswith("w: RUNNING")
    assert call("reap", cluster="")[0] == 0 and lease_of("w").state is State.LIVE
    code, _, said = call("workload delete w")
    assert code == 0 and "deleted: w" in said and lease_of("w").state is State.GONE
    code, out, _ = call("workload create ends", *CPU, "--wait", *python("print('I ran'); exit(3)"))
    assert code == 3 and "I ran" in out


def test_what_goes_with_its_cluster_is_closed_by_the_reaper(gke: Gke, call: Any) -> None:
    assert call("workload create gone", *CPU, *python(STAYS))[0] == 0
    gke.vanish("bench")
    code, out, _ = call("reap", cluster="")
    assert code == 0 and "its cluster took it away" in out and lease_of("gone").state is State.GONE
