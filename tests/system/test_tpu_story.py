"""The page about TPU VMs, line by line: each command in it is run, in order, against the stand-in and real sshd."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import getpass
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from flows.cli import tpu as command
from flows.cli.main import main
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import NodeRequest
from tasks.config.home import scratch_folder
from tasks.stages.tpus import Office
from tests.cloud import gcloud
from tests.cloud.fake_gcs import free_port
from tests.cloud.fake_index import add_wheel
from tests.cloud.sshd import Sshd, serve_ssh
from tests.cloud.tpu.leasing import QUICK, ZONE, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud
from tests.flows.cli.test_tpu_update import Repository, repository
from tests.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tpu-vm.md"
TARGET = "kind: tpu_vm\nexisting: {}\ntype: v6e-16\nzones: us-east5-b\npython: ~/slicebench-venv/bin/python\n"
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


def here(words: Sequence[str], hosts: Sequence[Sshd], repository: Repository, bucket: str) -> list[str]:
    """Returns a command as it is run here: other ports and people; a bucket, a repository and an index of this machine.

    Of a run only the plan is made: what it would do then is for other tests.
    """
    if words[0] == "run":
        return ["plan", *(word.replace("gs://my-bucket", bucket) for word in words[1:])]
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
    gcs_bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    ledger = a_ledger()
    tpu = CloudTpu("proj", timing=QUICK)
    office = Office(tpu, ledger, quick_inventories(ledger), scratch_folder(), lambda line: None, poll_s=0.05)
    monkeypatch.setattr(command, "office", lambda project: office)
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "theirs"):
        (tmp_path / f"{name}.yaml").write_text(TARGET.format(name))
    instances = {f"t1v-{n}-w-{n}": (one.address, one.port) for n, one in enumerate(machines)}
    monkeypatch.setenv("PATH", f"{gcloud.install(tmp_path / 'bin', instances)}:{os.environ['PATH']}")
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
        if "theirs.yaml" in words:  # what the page takes for granted there
            tpu.create_node(ZONE, "theirs", NodeRequest("v6e-16", "v2-alpha-tpuv6e", {}))
            until(lambda: tpu.node(ZONE, "theirs").state == "READY")
        told = here(words, machines, repository, gcs_bucket)
        code = main(told)
        assert code == 0, (told, capfd.readouterr())
    assert repository.imported() == "of the story"
    assert [name.rsplit("/", 1)[1] for name in tpu_cloud.inventory()] == ["theirs"]


def test_the_stand_in_is_started_and_asked_as_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    [start] = re.findall(r"^    python (-m tests.cloud .*)$", page, re.MULTILINE)
    [exports] = re.findall(r"^    export (.*)$", page, re.MULTILINE)
    port = str(free_port())
    words = [
        {"/tmp/tpus": str(tmp_path / "state"), "9000": port}.get(word, word) for word in shlex.split(start)
    ]
    env = dict(word.replace("9000", port).split("=", 1) for word in exports.split())
    server = subprocess.Popen([sys.executable, *words], cwd=ROOT)
    try:
        until((tmp_path / "state" / "port").exists)
        command = [sys.executable, "-m", "flows.cli.main", "tpu", "list"]
        told = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
    finally:
        server.kill()
        server.wait()
    assert told.returncode == 0, told.stderr
    assert "there is no TPU in any zone of proj" in told.stderr
