"""What cannot be written to stdout is said in one line, with exit code 3, and what was made by then is named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from flows.cli import main as commands
from flows.cli.main import main
from flows.said import say, surely

ROOT = Path(__file__).parents[3]
FULL = "slicebench: stdout cannot be written: No space left on device"


@pytest.mark.parametrize("words", [["leases", "--json"], ["plan", "quickstart"]])
def test_a_full_disk_behind_stdout_is_one_line(tmp_path: Path, words: Sequence[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = _started(tmp_path, words, stdout=full)
    told = [line for line in done.stderr.splitlines() if "warning: " not in line]
    assert (done.returncode, told) == (3, [FULL])


def test_a_closed_stdout_is_one_line_and_a_closed_stderr_is_no_trouble(tmp_path: Path) -> None:
    line = f"{sys.executable} -m flows.cli.main leases --json"
    done = subprocess.run(["bash", "-c", f"{line} >&-"], **_around(tmp_path))
    assert (done.returncode, done.stderr) == (3, "slicebench: stdout cannot be written: it is closed\n")
    done = subprocess.run(["bash", "-c", f"{line.removesuffix(' --json')} 2>&-"], **_around(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_remarks_that_cannot_be_written_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        monkeypatch.setattr(commands, "_command", lambda words: say("under way") or 0)
        assert main(["leases"]) == 0
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


@pytest.mark.parametrize(("code", "ends"), [(0, 3), (1, 3), (5, 5), (2, 2), (137, 137)])
def test_a_worse_end_is_told_rather(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int, ends: int
) -> None:
    monkeypatch.setattr(commands, "_command", lambda words: print("w") or code)
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["leases"]) == ends
    assert FULL in capsys.readouterr().err


def test_what_was_made_is_named_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(words: list[str]) -> int:
        with surely("workload w was submitted"):
            print("w")
        return 0

    monkeypatch.setattr(commands, "_command", command)
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["workload", "create"]) == 3
    assert capsys.readouterr().err == f"workload w was submitted\n{FULL}\n"


def _started(home: Path, words: Sequence[str], *, stdout: object) -> subprocess.CompletedProcess[str]:
    around = {**_around(home), "capture_output": False, "stdout": stdout, "stderr": subprocess.PIPE}
    return subprocess.run([sys.executable, "-m", "flows.cli.main", *words], **around)


def _around(home: Path) -> dict[str, object]:
    return {
        "cwd": ROOT, "env": {**os.environ, "SLICEBENCH_HOME": str(home)}, "capture_output": True, "text": True
    }  # fmt: skip
