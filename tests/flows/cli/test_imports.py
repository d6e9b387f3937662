"""What each command imports: none pays for a library that it does not use. Judged by what is loaded, never by time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.cloud.storage import open_folder
from tasks.history.dataset.store import Dataset
from tests.tasks.cloud.scripted_server import Reply, scripted
from tests.tasks.history.dataset.making import row

ROOT = Path(__file__).parents[3]
HEAVY = (
    "prefect", "jax", "numpy", "pandas", "pyarrow", "scipy", "matplotlib", "jinja2", "google", "grpc", "paramiko",
    "httpx", "httpx2", "pydantic",
)  # fmt: skip
IMAGE = "--docker-image x@sha256:{digest}"
SUBMIT = f"workload create n --context c --kubeconfig {{kubeconfig}} --type cpu {IMAGE} -- python -V"
SMALL = ("yaml", "logging", "http.client", "random", "shutil")
"""They take longer than all else that submitting does, together."""
SUITE = str(ROOT / "configs/suites/quickstart.yaml")
FORM = {"pydantic"}
"""What flags that are the fields of a request, or a target's file, are checked with."""

COMMANDS: dict[str, tuple[int, set[str]]] = {
    "--help": (0, set()),
    "--version": (0, set()),
    "nosuch": (2, set()),
    "runs": (0, set()),
    "runs --last 0": (2, set()),
    "leases": (0, set()),
    "reap --dry-run": (0, set()),
    "logs": (2, set()),
    "logs nosuch": (2, set()),
    "report nosuch": (2, set()),
    "compare nosuch": (2, set()),
    "explain nosuch": (2, set()),
    "down": (0, set()),
    "history --help": (0, set()),
    "history": (0, set()),
    "history list --history {history}": (0, {"numpy", "pyarrow", "scipy"}),
    "history tiny --no-plot --history {history}": (0, {"numpy", "pyarrow", "scipy"}),
    "bisect --help": (0, set()),
    "history import": (2, set()),
    "history show --last 0 x": (2, set()),
    "up --help": (0, set()),
    "up --port 0": (2, set()),
    "up --port {taken}": (2, set()),
    "image --help": (0, set()),
    "image build --help": (0, set()),
    "image build": (2, set()),
    "image build --docker-image x --script-dir .": (2, set()),
    "tpu --help": (0, set()),
    "workload --help": (0, set()),
    "workload list": (2, set()),
    "workload create --help": (0, set()),
    "workload create": (2, set()),
    f"workload create n --context c --type cpu {IMAGE} --dry-run -- python -V": (
        0,
        set(),
    ),
    SUBMIT: (0, set()),
    "workload delete --context c": (2, set()),
    "cluster --help": (0, set()),
    "env --help": (0, set()),
    "env plan nosuch": (2, set()),
    "env plan minimal --set x": (2, FORM),
    f"check {SUITE}": (0, set()),
    f"check {SUITE} --set nosuch=1": (2, set()),
    "check configs/targets/local.yaml": (0, FORM),
    "doctor": (0, FORM),
    "plan quickstart": (0, FORM),
    "schema target": (0, FORM),
    "run": (2, FORM),
    "run --help": (0, FORM),
    "run quickstart --target nosuch": (2, FORM),
    "run quickstart --workers 0": (2, FORM),
    "run quickstart --output /proc/x": (2, FORM),
    "run --resume nosuch": (2, FORM),
}

ANYTHING = Reply(200, {"metadata": {"name": "n", "uid": "u"}, "items": []})
KUBECONFIG = """\
clusters:
- cluster:
    server: {url}
  name: c
contexts:
- context:
    cluster: c
    user: c
  name: c
users:
- name: c
  user:
    token: t
"""

PROGRAM = f"""
import json, os, sys
from flows.cli.main import main
for words in json.load(sys.stdin):
    sys.stdout.flush()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        told = main(words.split()), [name for name in {(*HEAVY, *SMALL)!r} if name in sys.modules]
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    print(os.read(reading, 4096).decode(), flush=True)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, list[str]]]:
    """Exit code and heavy libraries of each command, each in a process that had imported flows.cli.main only."""
    home = tmp_path_factory.mktemp("home")
    with socket.create_server(("127.0.0.1", 0)) as taken, scripted(lambda asked: ANYTHING) as cluster:
        (home / "kubeconfig").write_text(KUBECONFIG.format(url=cluster.url))
        Dataset(open_folder(str(home / "history"))).append([row(0), row(1)])
        names = {
            "taken": taken.getsockname()[1],
            "kubeconfig": home / "kubeconfig",
            "history": home / "history",
            "digest": 64 * "0",
        }
        words = [command.format(**names) for command in COMMANDS]
        # Where there is a proxy more is imported, to know whether it is for that server.
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PREFECT_") and not name.lower().endswith("_proxy")
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(words),
            env={**environ, "PYTHONPATH": str(ROOT), "SLICEBENCH_HOME": str(home), "PREFECT_HOME": str(home)},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(COMMANDS, told, strict=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_only_what_it_uses(seen: dict[str, tuple[int, list[str]]], command: str) -> None:
    code, allowed = COMMANDS[command]
    ended, imported = seen[command]
    assert ended == code
    assert set(imported) - allowed - (set() if command == SUBMIT else set(SMALL)) == set()
