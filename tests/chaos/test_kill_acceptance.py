"""An acceptance is killed before and after each thing that it writes or starts; the same command goes on with it.

What ended is not done again, what the killed one had begun is ended or waited for, and no workload stays: neither of
whoever goes on, nor, where nobody does, of the reaper alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from runtime.contract.errors import ExitCode
from tasks.cloud.local_storage import LocalFolder
from tasks.leases import opening
from tasks.leases.lease import State
from tasks.stages import nightly_child
from tasks.stages.acceptance import open_acceptance, play_acceptance
from tasks.stages.nightly_run import Hands
from tests.chaos.driver import Plug, outcome, sample
from tests.cloud.kubernetes.client import JOBSETS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.stages.test_acceptance import Acceptances
from tests.tasks.stages.test_acceptance_program import Programs
from tests.waiting import until

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

NOW = datetime(2026, 11, 30, tzinfo=UTC)
KILLED = -signal.SIGKILL


def passed(plug: Plug, file: str, hands: Hands) -> Callable[[], None]:
    """Returns what plays an acceptance in a process of its own, where everything written and started is a moment."""

    def play() -> None:
        for name in ("write", "create"):
            setattr(LocalFolder, name, _plugged(plug, name, getattr(LocalFolder, name)))
        popen = subprocess.Popen

        def begin(words: Sequence[str], **more: Any) -> Any:
            return plug.around(
                f"start {words[-1] if words[-1] == '--json' else 'run'}", lambda: popen(words, **more)
            )

        nightly_child.subprocess = type("Plugged", (), {**vars(subprocess), "Popen": staticmethod(begin)})
        code = play_acceptance(open_acceptance(file, None, NOW), hands, lambda line: None).exit_code
        (Path(file).parent / "seen").write_text("\n".join(plug.seen))
        os._exit(int(code or 0))

    return play


def _plugged(plug: Plug, name: str, method: Any) -> Any:
    return lambda folder, *given: plug.around(f"{name} {given[0]}", lambda: method(folder, *given))


def moments(folder: Path) -> list[tuple[int, str]]:
    """Returns every moment of a passage that nobody killed."""
    return list(enumerate((folder / "seen").read_text().splitlines()))


def seen_going_on(run_id: str, name: str) -> bool:
    """Whether a stand-in of `slicebench run` has the run: those outlive the acceptance that began them."""
    return any(run_id in (one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"]))


def a_folder(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setenv("SLICEBENCH_HOME", str(folder / "home"))
    return folder


def test_of_a_suite_nothing_is_done_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def played(folder: Path, at: int | None) -> tuple[Acceptances, int]:
        one = Acceptances(folder)
        return one, outcome(passed(Plug(at), one.file(), replace(one.hands(), is_held=seen_going_on)))

    clean, ended = played(a_folder(tmp_path, "clean", monkeypatch), None)
    assert ended == ExitCode.DONE
    for number, told in sample(moments(clean.folder)):
        folder = a_folder(tmp_path, f"at-{number}", monkeypatch)
        one, ended = played(folder, number)
        assert ended == KILLED, told
        one, ended = played(folder, None)
        assert ended == ExitCode.DONE, told
        begun = [call for call in one.calls if call.startswith("run ")]
        assert len(begun) == 3, f"{told}: {one.calls}"
        assert len(set(begun)) == len(begun), told


def test_a_program_has_one_workload_and_in_the_end_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def played(folder: Path, at: int | None) -> int:
        one = Programs(folder)
        (folder / "does").write_text("")
        return outcome(passed(Plug(at), one.file(), one.hands()))

    clean = a_folder(tmp_path, "clean", monkeypatch)
    assert played(clean, None) == ExitCode.DONE
    for number, told in sample(moments(clean)):
        folder = a_folder(tmp_path, f"at-{number}", monkeypatch)
        assert played(folder, number) == KILLED, told
        assert played(folder, None) == ExitCode.DONE, f"{told}: {(folder / 'calls').read_text()}"
        assert not list(folder.glob("*.there")), told
        until(lambda folder=folder: not going(str(folder)))
        created = [line for line in (folder / "calls").read_text().splitlines() if "create" in line]
        assert 4 <= len(created) <= 6, f"{told}: one of two starts was begun anew, at most: {created}"


def going(word: str) -> list[psutil.Process]:
    """Returns the processes of this machine in whose words this one is, but for our own."""
    found = psutil.process_iter(["cmdline", "pid"])
    return [
        one
        for one in found
        if any(word in part for part in one.info["cmdline"] or ()) and one.pid != os.getpid()
    ]


TRAINS = """
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
saved = sorted(int(one.name) for one in place.iterdir()) if place.exists() else []
step = saved[-1] if saved else -10
if saved:
    print(f"restored step {step} in 0.5 s", flush=True)
while True:
    for done in range(step + 1, step + 11):
        print(f"step {done}: loss {1.0 / (done + 20)!r}", flush=True)
    step += 10
    (place / str(step)).mkdir(parents=True)
    (place / str(step) / "commit_success.txt").write_text("done")
    print(f"saved step {step} in 0.25 s", flush=True)
    time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    nodes = [{"pool": "cpu", "count": 3}]
    with KubernetesStandIn.started(tmp_path_factory.mktemp("cluster"), nodes=nodes) as started:
        yield started


def in_a_cluster(cluster: KubernetesStandIn, folder: Path) -> str:
    there = {
        "kind": "gke", "context": "standin", "kubeconfig": str(cluster.kubeconfig), "type": "cpu", "nodes": 1,
        "queue": None, "priority": None,
    }  # fmt: skip
    (folder / "there.yaml").write_text(yaml.safe_dump(there))
    (folder / "train.py").write_text(TRAINS)
    listens = "import socket, sys, time; at = sys.argv[1].split(':'); one = socket.create_server((at[0], int(at[1])))"
    beside = {"name": "p", "command": ["python", "-c", f"{listens}; time.sleep(600)", "{address}:{port}"]}
    content = {
        "name": "own",
        "target": "./there.yaml",
        "training": {
            "image": f"r.example/p/x@sha256:{'0' * 64}",
            "command": ["python", str(folder / "train.py"), "{checkpoints}"],
            "checkpoints": f"{folder}/saved/{{run}}",
            "after": 1,
        },
        "output": str(folder / "runs"),
        "checkpoints": 1,
        "reference": False,
        "variants": [{"name": "none"}, {"name": "beside", "sidecar": beside}],
    }
    (folder / "a.yaml").write_text(yaml.safe_dump(content))
    return str(folder / "a.yaml")


REAPS_MUCH_LATER = """
import time
now = time.time
time.time = lambda: now() + 48 * 3600
from flows.cli.main import main
raise SystemExit(main(["reap"]))
"""
"""Reaps as if all limits were over: a workload may stay for as long as its own says. In a Python of its own, for what
was imported before keeps the clock that it knew."""


@pytest.mark.parametrize("afterwards", ["again", "reap"])
def test_no_workload_stays_in_a_cluster(
    cluster: KubernetesStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, afterwards: str
) -> None:
    api = Plain(cluster.url)
    hands = Hands(
        [], lambda *_: None, lambda *_: False, workload=[sys.executable, "-m", "flows.cli.main", "workload"]
    )

    def played(folder: Path, at: int | None) -> int:
        mine = replace(hands, environ={**os.environ})
        return outcome(passed(Plug(at), in_a_cluster(cluster, folder), mine))

    clean = a_folder(tmp_path, "clean", monkeypatch)
    assert played(clean, None) == ExitCode.DONE
    starts = [one for one in moments(clean) if one[1].startswith("after start")]
    for number, told in sample(starts):
        folder = a_folder(tmp_path, f"at-{number}", monkeypatch)
        assert played(folder, number) == KILLED, told
        if afterwards == "again":
            assert played(folder, None) == ExitCode.DONE, told
        else:
            # What was begun may have been the deletion of what is there.
            until(lambda folder=folder: api.names(JOBSETS) or not going(str(folder)))
            for one in going(str(folder)):
                with suppress(psutil.NoSuchProcess):
                    one.kill()  # as if the machine had been lost
            subprocess.run([sys.executable, "-c", REAPS_MUCH_LATER], cwd=ROOT, check=True)
        until(lambda: not api.names(JOBSETS))
        until(lambda folder=folder: not going(str(folder)))
        assert {one.state for one in opening.the_ledger().listing().leases} <= {State.GONE}, told
