"""`slicebench tpu exec` and `tpu ssh`: into TPUs of the stand-in whose workers are real sshd."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from flows.cli import tpu as command
from flows.cli.main import main
from runtime.contract.errors import ExitCode
from tasks.cloud.tpu import CloudTpu
from tasks.config.home import scratch_folder
from tasks.stages.tpus import Office
from tests.cloud.sshd import Sshd, serve_ssh
from tests.cloud.tpu.leasing import QUICK, ZONE, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud

CREATE = ("tpu", "create", "mine", "--type", "v6e-1", "--zone", ZONE)


@pytest.fixture(scope="module")
def machines(need_sshd: None) -> Iterator[list[Sshd]]:
    """Two hosts whose keys nobody but the stand-in can push."""
    with serve_ssh(2) as hosts:
        hosts[0].key.with_suffix(".pub").write_text("")
        yield hosts


@pytest.fixture
def two_slices(machines: list[Sshd], tpu_cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A TPU of two slices of one worker each; returns the flags for its sshd."""
    ledger = a_ledger()
    office = Office(
        CloudTpu("proj", timing=QUICK),
        ledger,
        quick_inventories(ledger),
        scratch_folder(),
        lambda line: None,
        poll_s=0.02,
    )
    monkeypatch.setattr(command, "office", lambda project: office)
    with tpu_cloud.store.changing() as world:
        world["hosts"] = [
            {"address": one.address, "host_key": one.pin, "authorized_keys": f"{one.key}.pub"}
            for one in machines
        ]
    assert main([*CREATE, "--slices", "2", "--user", machines[0].user]) == 0
    return ["--port", str(machines[0].port)]


def test_a_command_on_all_workers(two_slices: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main(["tpu", "exec", "mine", *two_slices, "--", "echo out; echo err >&2"]) == 0
    shown = capfd.readouterr()
    assert sorted(shown.out.splitlines()) == ["[0] out", "[1] out"]
    assert {"[0] err", "[1] err"} <= set(shown.err.splitlines())
    assert (
        main(
            ["tpu", "exec", "mine", *two_slices, "--worker", "1", "--json", "--", "printf", "%s|", "a b", "c"]
        )
        == 0
    )
    [answer] = json.loads(capfd.readouterr().out)["answers"]
    assert (answer["worker"], answer["node"], answer["output"]) == (1, "mine-1", "a b|c|")


def test_its_exit_code_counts(
    two_slices: list[str], machines: list[Sshd], capfd: pytest.CaptureFixture[str]
) -> None:
    line = f'case "$SSH_CONNECTION" in *{machines[1].address}*) exit 7;; esac'
    assert main(["tpu", "exec", "mine", *two_slices, "--", line]) == ExitCode.WORKLOAD_FAILED
    assert "[1] exit code 7" in capfd.readouterr().err


def test_a_shell_on_one_worker(
    two_slices: list[str], machines: list[Sshd], capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["tpu", "ssh", "mine", *two_slices, "--worker", "1", "--", "echo $SSH_CONNECTION; exit 5"]
    assert main(words) == 5
    assert machines[1].address in capfd.readouterr().out


def test_a_host_with_another_key_is_not_trusted(
    two_slices: list[str],
    machines: list[Sshd],
    tpu_cloud: Cloud,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with tpu_cloud.store.changing() as world:
        world["hosts"][1]["host_key"] = machines[0].pin
    assert main(["tpu", "exec", "mine", *two_slices, "--", "true"]) == ExitCode.INFRASTRUCTURE
    shown = capfd.readouterr().err
    assert "[1]" in shown
    assert "somebody may stand in between" in shown
    assert main(["tpu", "ssh", "mine", *two_slices, "--worker", "1", "--", "true"]) == 255


def test_what_cannot_be_entered_says_why(
    two_slices: list[str], tpu_cloud: Cloud, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["tpu", "exec", "mine", *two_slices, "--worker", "2", "--", "true"]) == ExitCode.BAD_INPUT
    assert "its workers are 0 to 1" in capfd.readouterr().err
    assert main(["tpu", "exec", "mine", *two_slices]) == ExitCode.BAD_INPUT
    assert "tpu exec mine -- hostname" in capfd.readouterr().err
    tpu_cloud.preempt("mine-1")
    assert main(["tpu", "ssh", "mine", *two_slices]) == ExitCode.INFRASTRUCTURE
    assert "mine-1 is PREEMPTED" in capfd.readouterr().err
