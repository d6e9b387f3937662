"""`slicebench doctor`: what is wrong is told with what fixes it, and no check can hold up the others."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

from flows.cli.main import main
from runtime.contract.errors import InfrastructureError
from tasks.cloud.tpu_errors import error_for
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.target import LocalTargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.stages.doctor import Check, Finding, examine, look_at_folder, look_at_python
from tasks.stages.doctor_targets import look_at_hosts, look_at_local, look_at_tpu
from tasks.targets.tpu_preflight import fix_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    for name in ("SLICEBENCH_LEDGER", "PREFECT_API_URL", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_machine_that_is_fine(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["wrong"]) == (0, False)
    assert {"python", "uv", "state", "output", "ledger", "prefect"} <= {
        one["check"] for one in told["findings"]
    }
    assert not (home / "home").exists()  # it looks, and leaves nothing


def test_an_output_that_cannot_be_written_is_wrong(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "file").write_text("")
    assert main(["doctor", "--output", str(home / "file" / "runs")]) == 3
    out = capsys.readouterr().out
    assert "WRONG     output" in out and "fix: name another --output" in out


def test_a_prefect_server_that_does_not_answer_is_wrong(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert main(["doctor"]) == 3
    assert "WRONG     prefect" in capsys.readouterr().out


def test_a_check_that_hangs_or_fails_holds_up_no_other() -> None:
    never = threading.Event()

    def hang() -> list[Finding]:
        never.wait()
        return []

    def fail() -> list[Finding]:
        raise InfrastructureError("broken, do this")

    fine = [Finding("c", "fine", "good")]
    found = examine([Check("a", hang, 0.05), Check("b", fail), Check("c", lambda: fine)])
    never.set()
    assert [(one.check, one.status) for one in found] == [("a", "wrong"), ("b", "wrong"), ("c", "fine")]


def test_an_old_python_is_wrong() -> None:
    assert look_at_python((3, 10, 4))[0].status == "wrong"


def test_a_folder_is_looked_at_without_a_trace(tmp_path: Path) -> None:
    assert look_at_folder("x", str(tmp_path / "a" / "b"), "")[0].status == "fine"
    assert not list(tmp_path.iterdir())


def test_a_local_target_needs_its_gpus_and_its_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(**fields: str) -> list[tuple[str, str]]:
        config = LocalTargetConfig.model_validate({"kind": "local", **fields})
        return [(one.check, one.status) for one in look_at_local("t", config)]

    assert told(python=sys.executable) == [("target", "fine"), ("target's python", "fine")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert told(platform="gpu", python="/no/python") == [
        ("target", "fine"),
        ("gpu", "wrong"),
        ("target's python", "wrong"),
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert ("gpu", "fine") in told(platform="gpu")


def test_a_host_whose_key_nobody_knows(tmp_path: Path) -> None:
    hosts = ["127.0.0.1"]
    config = SshTargetConfig.model_validate(
        {
            "kind": "ssh",
            "hosts": hosts,
            "user": "u",
            "python": "/usr/bin/python3",
            "known_hosts": str(tmp_path / "none"),
        }
    )
    (found,) = look_at_hosts(config)
    assert found.status == "wrong" and "host_key_unknown" in found.what and "ssh-keyscan" in found.fix


@pytest.mark.parametrize(
    ("code", "message", "fix"),
    [
        (7, "The caller does not have permission", "add-iam-policy-binding p "),
        (
            7,
            "Cloud TPU API has not been used in project p before or it is disabled",
            "gcloud services enable",
        ),
        (16, "Request had invalid authentication credentials", "application-default login"),
        (5, "Location us-x was not found", "locations list"),
        (14, "failed to connect to all addresses", "curl"),
    ],
)
def test_what_the_api_says_is_told_apart(code: int, message: str, fix: str) -> None:
    assert fix in fix_of(error_for(code, message, "list"), "p")


def test_without_a_project_it_says_how_to_name_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLICEBENCH_PROJECT", "GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    (found,) = look_at_tpu(
        TpuVmTargetConfig.model_validate({"kind": "tpu_vm", "type": "v6e-8", "python": "/usr/bin/python3"})
    )
    assert found.status == "wrong" and "--project" in found.fix
