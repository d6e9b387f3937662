"""Processes under a label: found however they hide, and nobody else's is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.supervision import processes
from runtime.supervision.processes import (
    all_processes,
    catches,
    end_tree,
    kill,
    labelled,
    look,
    state_of,
    tree,
)
from tests.waiting import until

SLEEP = "import time; time.sleep(600)"
Start = Iterator[subprocess.Popen[bytes]]


class Nursery:
    """Starts processes and ends them after the test."""

    def __init__(self) -> None:
        self.label = f"LABEL={uuid.uuid4().hex}"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, code: str = SLEEP, *, label: str | None = None, **more: object
    ) -> subprocess.Popen[bytes]:
        name, _, value = (label or self.label).partition("=")
        process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, name: value}, **more)  # type: ignore[call-overload]
        self.started.append(process)
        return process  # type: ignore[no-any-return]

    @property
    def prefix(self) -> bytes:
        return self.label.encode()


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    end_tree(made.prefix, root=-1)
    for process in made.started:
        process.kill()
        process.wait()


def found(nursery: Nursery, count: int) -> list[processes.Process]:
    until(lambda: len(tree(nursery.prefix, -1)) == count)
    return tree(nursery.prefix, -1)


def test_a_label_is_found_and_a_longer_or_shorter_one_is_not(nursery: Nursery) -> None:
    ours = nursery.start()
    nursery.start(label="LABEL2=x")
    nursery.start(label=f"X{nursery.label}")
    found(nursery, 1)
    assert [process.pid for process in labelled(nursery.prefix)] == [ours.pid]


def test_a_tree_goes_and_a_stranger_with_the_same_command_line_stays(nursery: Nursery) -> None:
    stranger = nursery.start(label="OTHER=1")
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{SLEEP}'], env={{}}); {SLEEP}"
    root = nursery.start(child, start_new_session=True)
    found(nursery, 2)
    assert end_tree(nursery.prefix, root.pid) == []
    assert root.wait() == -signal.SIGKILL
    assert stranger.poll() is None


def test_a_later_process_with_the_same_pid_is_not_killed(nursery: Nursery) -> None:
    process = nursery.start()
    seen = look(process.pid)
    assert seen
    kill(replace(seen, start=seen.start - 1))
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    kill(seen)
    assert process.wait() == -signal.SIGKILL
    kill(seen)


def test_a_zombie_is_gone(nursery: Nursery) -> None:
    process = nursery.start("")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert look(process.pid) is None
    assert state_of(process.pid) == processes.GONE


def test_states_are_told(nursery: Nursery) -> None:
    process = nursery.start()
    process.send_signal(signal.SIGSTOP)
    until(lambda: state_of(process.pid) == processes.STOPPED)


def test_a_handler_is_seen(nursery: Nursery) -> None:
    armed = nursery.start(
        f"import faulthandler, signal; faulthandler.register(signal.SIGUSR2); print(1, flush=True); {SLEEP}",
        stdout=subprocess.PIPE,
    )
    assert armed.stdout
    armed.stdout.readline()
    assert catches(armed.pid, signal.SIGUSR2)
    assert not catches(nursery.start().pid, signal.SIGUSR2)
    assert not catches(2**22 + 1, signal.SIGUSR2)


def test_this_process_is_seen_as_it_is() -> None:
    me = look(os.getpid())
    assert me and (me.parent, me.session) == (os.getppid(), os.getsid(0))
    assert me.pid in {process.pid for process in all_processes()}


@pytest.mark.parametrize(
    ("cgroup", "files", "count"),
    [
        ("0::/a\n", {"sys/fs/cgroup/a/memory.events": "low 0\noom 5\noom_kill 2\n"}, 2),
        (
            "3:cpu,memory:/b\n0::/\n",
            {"sys/fs/cgroup/memory/b/memory.oom_control": "under_oom 0\noom_kill 3\n"},
            3,
        ),
        ("0::/gone\n", {"proc/vmstat": "nr_free 1\noom_kill 7\n"}, 7),
        ("", {}, 0),
    ],
)
def test_kills_for_memory_are_counted(tmp_path: Path, cgroup: str, files: dict[str, str], count: int) -> None:
    for name, text in {"proc/self/cgroup": cgroup, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert processes.out_of_memory_kills(tmp_path) == count
