"""Training as a program in pods: a JobSet that starts them all anew, by the same template, goes on from the newest."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tasks.history.acceptance import Start
from tasks.history.acceptance_log import read_log
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.cloud.store.running import Store
from tests.cloud.store.running import store_server as store_server
from tests.system.test_acceptance_in_pods import IMAGE, ROOT
from tests.system.test_acceptance_in_pods import cluster as cluster
from tests.system.test_acceptance_in_pods import target as target
from tests.system.test_acceptance_in_pods import variables as variables

pytestmark = pytest.mark.system

STEPS = 40
SIZES = ("--layers=2", "--width=32", "--heads=2", "--vocabulary=64", "--sequence=16", "--batch=2")
SLOWLY = "--step-s=0.8"
"""So that it is not over before it is killed, however late its lines come."""

SAID = re.compile(r"^\[(?P<pod>\S*slice-job-0-0\S*)\] (?P<text>.*)$")


def trained(
    cluster: KubernetesStandIn,
    target: Path,
    variables: Mapping[str, str],
    place: str,
    *more: str,
    kill_at: str = "",
) -> list[Start]:
    """Trains in a pod to the end; returns the starts that it tells of. `kill_at`: once it says that, it is killed."""
    program = [
        "python", "-m", "runtime.training", "--directory", place, f"--train-steps={STEPS}",
        "--save-interval-steps=10", "--max-to-keep=9", *SIZES, *more,
    ]  # fmt: skip
    command = [
        *(sys.executable, "-m", "flows.cli.main", "workload", "create", place.rpartition("/")[2]),
        *("--target", str(target), "--image", IMAGE, "--wait", "--", *program),
    ]
    env = {**os.environ, **variables, "SLICEBENCH_HOME": str(target.parent / "home")}
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            if kill_at and SAID.match(line) and kill_at in line:
                kill_at = ""
                for pid in of_a_program(cluster):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
    assert process.returncode == 0, "".join(lines)
    assert not kill_at, "".join(lines)
    return read_log([said["text"] for line in lines if (said := SAID.match(line))])


def of_a_program(cluster: KubernetesStandIn) -> list[int]:
    """Returns the processes of pods that train."""
    found = []
    for pid in cluster.processes():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            if b"runtime.training" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def test_a_jobset_that_starts_anew_goes_on_as_if_nothing_had_been(
    cluster: KubernetesStandIn,
    target: Path,
    store_server: Store,
    variables: dict[str, str],
) -> None:
    target.write_text(yaml.safe_dump({**yaml.safe_load(target.read_text()), "max_restarts": 1}))
    place = f"gs://{store_server.new_bucket()}"
    (whole,) = trained(cluster, target, variables, f"{place}/whole")
    assert list(whole.losses) == list(range(STEPS))
    first, second = trained(cluster, target, variables, f"{place}/killed", SLOWLY, kill_at="saved step 10 in")
    assert second.resumed is not None and second.resumed >= max(first.saved) >= 10
    assert second.resumed % 10 == 0, "a checkpoint that is complete"
    assert list(second.losses) == list(range(second.resumed + 1, STEPS))
    assert first.losses.items() <= whole.losses.items() and second.losses.items() <= whole.losses.items()
    (third,) = trained(cluster, target, variables, f"{place}/given", f"--resume-from={place}/whole/20")
    assert third.resumed == 20 and list(third.losses) == list(range(21, STEPS))
    assert third.losses.items() <= whole.losses.items()
