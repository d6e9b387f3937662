"""Into workers without external addresses: through tunnels that a stand-in of gcloud makes."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flows.cli.main import main
from runtime.contract.errors import ExitCode
from tasks.cloud.tpu import CloudTpu
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.targets.tpu_preflight import preflight
from tasks.targets.types import Plan
from tests.cloud import gcloud
from tests.cloud.sshd import Sshd
from tests.cloud.tpu.running import Cloud
from tests.flows.cli.test_tpu_workers import machines, two_slices

PLAN = Plan("t", [], 1, 1, 1, "tpu")


@pytest.fixture
def tunnels(tmp_path: Path, machines: list[Sshd], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with gcloud in it, which tunnels to the first worker only."""
    at = (machines[0].address, machines[0].port)
    folder = gcloud.install(tmp_path / "bin", {"t1v-0-w-0": at})
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_a_command_and_a_shell_go_through_tunnels_and_a_failing_one_says_why(
    two_slices: list[str],
    machines: list[Sshd],
    tunnels: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.cloud.ssh._FIRST_PAUSE_S", 0.01)
    code = main(["tpu", "exec", "mine", *two_slices, "--iap", "--", "echo through"])
    shown = capfd.readouterr()
    assert (code, shown.out) == (ExitCode.INFRASTRUCTURE, "[0] through\n")
    assert "gcloud said: ERROR: (gcloud.compute.start-iap-tunnel) Error while connecting [4003: " in shown.err
    call = f"compute start-iap-tunnel t1v-0-w-0 {machines[0].port} --listen-on-stdin --project=proj"
    assert f"{call} --zone=us-east5-b --verbosity=warning" in (tunnels / "calls").read_text().splitlines()
    assert main(["tpu", "ssh", "mine", *two_slices, "--iap", "--", "echo shell; exit 4"]) == 4
    assert "shell" in capfd.readouterr().out


def test_what_tunnels_need_is_asked_before_anything_is_made(
    tpu_cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fields = {"kind": "tpu_vm", "type": "v6e-1", "zones": "us-east5-b", "addresses": "iap"}
    config = TpuVmTargetConfig.model_validate(fields)
    folder = gcloud.install(tmp_path / "bin", {}, account="")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    [nobody] = preflight(CloudTpu("proj"), config, PLAN)
    assert (nobody.severity, nobody.fix) == ("error", "gcloud auth login")
    assert main(["tpu", "exec", "mine", "--iap", "--", "true"]) == ExitCode.BAD_INPUT
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    [missing] = preflight(CloudTpu("proj"), config, PLAN)
    assert missing.severity == "error" and "gcloud, which is not on the PATH" in missing.what
    assert main(["tpu", "exec", "mine", "--iap", "--internal", "--", "true"]) == ExitCode.BAD_INPUT
    assert "give one of them" in capfd.readouterr().err
    assert tpu_cloud.mutations() == []
