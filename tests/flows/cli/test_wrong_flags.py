"""A wrong flag is refused in one line, in the flag's own spelling."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli.main import main

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run q --workers 0", "--workers must be at least 1, not 0"),
        ("run q --workers two", "--workers must be a whole number, not two"),
        ("run q --operation-deadline-s=-5", "--operation-deadline-s must be a number greater than 0, not -5"),
        (
            "run q --operation-deadline-s nan",
            "--operation-deadline-s must be a finite number, not nan",
        ),
        ("run q --run-deadline-s soon", "--run-deadline-s must be a number, not soon"),
        ("run q --keep maybe", "--keep must be never, on_failure or always, not maybe"),
        (
            "run --resume r --from nosuch",
            "--from must be build, provision, upload, run, collect or teardown, not nosuch",
        ),
        ("plan q --keep-for 2", "--keep-for must be a time, such as 90s, 30m, 4h or 2d, not 2"),
        ("run q --qqq", "Unknown option: --qqq, see slicebench run --help"),
        ("run q more", "nothing is known to be done with: more, see slicebench run --help"),
        ("run q --wrkers 2", "Unknown option: --wrkers, did you mean --workers, see slicebench run --help"),
        ("run q --env", "--env needs a value, see slicebench run --help"),
        ("plan", "SUITE is missing, see slicebench plan --help"),
        ("runs --last x", "--last must be a whole number, not x, see slicebench runs --help"),
        (
            "schema nosuch",
            "KIND must be suite or target or nightly or acceptance or environment, not nosuch, "
            "see slicebench schema --help",
        ),
        ("tpu list --nosuch", "Unknown option: --nosuch, see slicebench tpu list --help"),
        ("up --port 99999", "--port must be between 1 and 65535, not 99999"),
        ("up --port 0", "--port must be between 1 and 65535, not 0"),
        ("runs --last -1", "--last must be at least 1, not -1"),
        (
            "tpu create n --type v6e-4 --zone us-east5-b --slices 0",
            "--slices must be at least 1, not 0",
        ),
        (
            "tpu create n --type v6e-4 --zone nowhere",
            "--zone must be a zone, such as us-east5-b, not nowhere",
        ),
        ("repot", "there is no command 'repot', did you mean report or reap?"),
        ("tpu crate", "there is no command 'tpu crate', did you mean create?"),
        (
            "tpu zzz",
            "there is no command 'tpu zzz', there are: create, status, list, exec, ssh, update, discover, delete",
        ),
        ("runs --output /no/such", "there is no folder /no/such, name the --output of your runs"),
    ],
)
def test_a_wrong_flag_is_one_line(capsys: pytest.CaptureFixture[str], words: str, told: str) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"slicebench: {told}\n"


def test_every_wrong_flag_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "q", "--workers", "0", "--pr", "-1"]) == 2
    assert sorted(capsys.readouterr().err.splitlines()) == [
        "slicebench: --pr must be at least 1, not -1",
        "slicebench: --workers must be at least 1, not 0",
    ]


def test_no_runs_yet_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    assert "no runs in" in capsys.readouterr().err


def test_down_now_cancels_however_often_it_was_asked_before() -> None:
    program = (
        "from flows.cli.up import _NOW, _Signals; import signal, sys\n"
        "signals = _Signals()\n"
        "for number in (signal.SIGTERM, _NOW, _NOW): signal.raise_signal(number)\n"
        "sys.exit(signals.count)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 2
