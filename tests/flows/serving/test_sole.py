"""Of two `slicebench up` that start in the same second on one database, one is refused; who is killed holds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli.main import main
from flows.serving import place
from flows.serving.sole import lock_of, only_one
from runtime.contract.errors import BadInput
from tests.cloud.fake_gcs import free_port

URL = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
ROOT = Path(__file__).parents[3]
HOLDS = (
    "from flows.serving.sole import only_one\nwith only_one():\n    print('held', flush=True)\n    input()\n"
)


@pytest.mark.parametrize("shared", [True, False])
def test_the_second_is_refused_before_anything_starts(
    shared: bool,
    clean_environment: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if shared:
        monkeypatch.setenv(URL, f"sqlite+aiosqlite:///{tmp_path}/one.db")
    with only_one():
        if shared:
            monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "another"))
        assert main(["up", "--port", str(free_port())]) == 2
    told = capsys.readouterr().err
    assert f"another slicebench up works on this database (process {os.getpid()}" in told
    assert "starting a Prefect server" not in told


def test_who_is_killed_holds_nothing(clean_environment: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(BadInput, match=f"process {holder.pid}, which is slicebench up"), only_one():
        pass
    holder.kill()
    holder.communicate()
    with only_one():
        pass


def test_the_lock_is_the_databases(clean_environment: Path, tmp_path: Path) -> None:
    own = place.folder() / "up.lock"
    assert lock_of({}) == own
    assert lock_of({URL: "sqlite+aiosqlite:///:memory:"}) == own
    (tmp_path / "link").symlink_to(tmp_path)
    for folder in (tmp_path / "link", tmp_path):
        assert lock_of({URL: f"sqlite+aiosqlite:///{folder}/a.db"}) == tmp_path / "a.db.up.lock"
    run = {"XDG_RUNTIME_DIR": "/run/user/1"}
    one = lock_of({**run, URL: "postgresql+asyncpg://me:secret@db:5432/prefect"})
    assert str(one.parent) == "/run/user/1/slicebench"
    assert lock_of({**run, URL: "postgresql+asyncpg://you:other@db:5432/prefect"}) == one
    assert lock_of({**run, URL: "postgresql+asyncpg://me:secret@db:5432/another"}) != one
