"""The page about TPU VMs, line by line: each command in it is run, in order, against the stand-in and real sshd."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from flows.cli import tpu as command
from flows.cli.main import main
from tasks.cloud.tpu import CloudTpu
from tasks.config.home import scratch_folder
from tasks.stages.tpus import Office
from tests.cloud.fake_index import add_wheel
from tests.cloud.sshd import Sshd, need_sshd, serve_ssh
from tests.cloud.tpu.leasing import QUICK, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud, tpu_cloud, tpu_server
from tests.flows.cli.test_tpu_update import Repository, repository

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tpu-vm.md"
MINE = "kind: tpu_vm\nexisting: mine\ntype: v6e-16\nzones: us-east5-b\npython: ~/slicebench-venv/bin/python\n"
LOGS_IN = ("discover", "update", "exec", "ssh")


@pytest.fixture(scope="module")
def machines(need_sshd: None) -> Iterator[list[Sshd]]:
    """The four workers of a v6e-16, entered as oneself: git only reads repositories of the same user."""
    with serve_ssh(4, user=getpass.getuser()) as hosts:
        hosts[0].key.with_suffix(".pub").write_text("")
        yield hosts


def commands() -> list[list[str]]:
    """Returns the words of each command of the page, in order."""
    lines = re.findall(r"^    (slicebench .*)$", PAGE.read_text(), re.MULTILINE)
    return [shlex.split(line)[1:] for line in lines]


def here(words: Sequence[str], hosts: Sequence[Sshd], repository: Repository) -> list[str]:
    """Returns a command as it is run here: other ports and people; a repository and an index of this machine.

    Of a run only the plan is made: what it would do then is for other tests.
    """
    if words[0] == "run":
        return ["plan", *words[1:]]
    told = list(words)
    more: list[str] = []
    if told[1] == "create":
        more += ["--user", hosts[0].user]
    if told[1] in LOGS_IN:
        more += ["--port", str(hosts[0].port)]
    if told[1] == "update":
        more += ["--python", repository.python, "--folder", str(repository.home)]
        told = [repository.url if word.startswith("https://") else word for word in told]
        told = [str(repository.home.parent / "setup.sh") if word.endswith(".sh") else word for word in told]
        if "--setup" not in told and "--repo" not in told:
            more += ["--repo", repository.url]
        if "--jax-version" in told:
            more += ["--jax-index", f"file://{repository.home.parent / 'index'}"]
    if told[1] == "ssh":
        more += ["--", "true"]
    at = told.index("--") if "--" in told else len(told)
    return [*told[:at], *more, *told[at:]]


def test_every_command_of_the_page_runs(
    machines: list[Sshd],
    repository: Repository,
    tpu_cloud: Cloud,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    ledger = a_ledger()
    tpu = CloudTpu("proj", timing=QUICK)
    office = Office(tpu, ledger, quick_inventories(ledger), scratch_folder(), lambda line: None, poll_s=0.05)
    monkeypatch.setattr(command, "office", lambda project: office)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(MINE)
    with tpu_cloud.store.changing() as world:
        world["hosts"] = [
            {"address": one.address, "host_key": one.pin, "authorized_keys": f"{one.key}.pub"}
            for one in machines
        ]
    add_wheel(repository.home.parent / "index", "jax", "1.0.0")
    (repository.home.parent / "setup.sh").write_text("true\n")
    head = repository.commit("of the story")
    repository.git("update-ref", "refs/pull/1234/head", head)
    repository.git("update-ref", "refs/heads/fix", head)
    for words in commands():
        told = here(words, machines, repository)
        code = main(told)
        assert code == 0, (told, capfd.readouterr())
    assert repository.imported() == "of the story"
    assert tpu_cloud.inventory() == []
