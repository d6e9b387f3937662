"""Programs we run end in time, and with us, together with all they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud.command import clean_environment, run_command
from tests.waiting import PATIENCE_S, until

_TREE = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
_LEAF = "import os, time; open({path!r}, 'w').write(str(os.getpid())); time.sleep(600)"


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def read_pid(path: Path) -> int | None:
    text = path.read_text() if path.exists() else ""
    return int(text) if text else None


def test_output_and_code_come_back() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = run_command([sys.executable, "-c", code], env=clean_environment(), timeout_s=PATIENCE_S)
    assert (done.code, done.text, done.errors) == (3, "out\n", "err\n")


def test_a_program_that_a_signal_ended_has_not_succeeded() -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    assert (
        run_command([sys.executable, "-c", code], env=clean_environment(), timeout_s=PATIENCE_S).code == 137
    )


def test_a_program_gets_no_input_and_dies_of_a_pipe_that_nobody_reads_any_more() -> None:
    done = run_command(["sh", "-c", "cat; yes | head -1"], env=clean_environment(), timeout_s=PATIENCE_S)
    assert (done.code, done.text, done.errors) == (0, "y\n", "")


def test_what_is_not_installed_is_told() -> None:
    with pytest.raises(InfrastructureError, match="no-such-program is not installed"):
        run_command(["no-such-program"], env=clean_environment(), timeout_s=PATIENCE_S)


def test_late_programs_are_killed_with_all_they_started(tmp_path: Path) -> None:
    leaf = _LEAF.format(path=str(tmp_path / "pid"))
    for limit in (
        1,
        5,
        25,
        125,
    ):  # until there is something to kill: where others use the machine, starting takes long
        with pytest.raises(InfrastructureError, match=f"did not end within {limit} s"):
            run_command([sys.executable, "-c", _TREE, leaf], env=clean_environment(), timeout_s=limit)
        if (pid := read_pid(tmp_path / "pid")) is not None:
            break
    assert pid is not None
    until(lambda: not alive(pid))


def test_nothing_outlives_us_even_when_we_are_killed(tmp_path: Path) -> None:
    leaf = _LEAF.format(path=str(tmp_path / "pid"))
    caller = (
        "import sys; from tasks.cloud.command import *;"
        f"run_command([sys.executable, '-c', {_TREE!r}, {leaf!r}], env=clean_environment(), timeout_s=600)"
    )
    us = subprocess.Popen(
        [sys.executable, "-c", caller], env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    )
    try:
        until(lambda: read_pid(tmp_path / "pid") is not None)
    finally:
        us.send_signal(signal.SIGKILL)
        us.wait()
    pid = read_pid(tmp_path / "pid")
    assert pid is not None
    until(lambda: not alive(pid))


def test_the_environment_is_what_is_listed() -> None:
    env = clean_environment(
        {"PATH": "/bin", "HF_TOKEN": "x", "PYTHONPATH": "x", "GIT_DIR": "x", "https_proxy": "p"}
    )
    assert env == {"PATH": "/bin", "https_proxy": "p"}
