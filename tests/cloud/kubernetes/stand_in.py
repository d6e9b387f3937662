"""For tests: starts the stand-in for a Kubernetes cluster as a process of its own, and does things to it.

    pool = tpu_pool("np-0", "tpu-v5-lite-podslice", "4x4", hosts=4)
    with KubernetesStandIn.started(tmp_path, nodes=[pool]) as cluster:
        cluster.kubeconfig            # its one context is `standin`; nothing of the user's is read or written
        cluster.url                   # http://127.0.0.1:…, for httpx or any client
        cluster.fault(verb="create", kind="jobsets", action="lose_reply")
        cluster.down()                # the API is away until cluster.up(), what runs goes on running
        cluster.assert_nothing_left()

JobSet and Kueue run in it unless `without=("kueue",)`; a pod's command runs as processes of this machine, in a folder
of its own, with the interpreter that the tests have. `certificates=` and `token=` serve it by TLS to those who have the
token, `images=` says which images exist, and settings.py has the rest; faults.py has what goes wrong on demand,
control.py what else a test can do: cut streams, forget the history, lose nodes, put the clock wrong. By hand:
`python -m tests.cloud kubernetes`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.cloud.kubernetes.nodes import tpu_pool
from tests.cloud.kubernetes.processes import kill_marked, marked
from tests.waiting import PATIENCE_S, until

__all__ = ["KubernetesStandIn", "tpu_pool"]

_ROOT = Path(__file__).resolve().parents[3]

# One for all, which trusts nobody by TLS: whom to trust takes 20 ms of processor to load, and it asks by HTTP alone.
_SIDE_DOOR = httpx.Client(
    timeout=PATIENCE_S, verify=False, limits=httpx.Limits(max_keepalive_connections=0), trust_env=False
)


@dataclass
class KubernetesStandIn:
    """A running stand-in."""

    process: subprocess.Popen[str] | None
    url: str
    control: str
    kubeconfig: Path
    folder: Path
    mark: str

    @classmethod
    @contextlib.contextmanager
    def started(
        cls, folder: Path, *, without: tuple[str, ...] = (), port: int = 0, **settings: Any
    ) -> Iterator[KubernetesStandIn]:
        """Starts one with these settings (see settings.py); at the end it and all that its pods run are gone."""
        folder = folder / "kubernetes"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.json").write_text(json.dumps(settings))
        command = [
            sys.executable,
            "-m",
            "tests.cloud",
            "kubernetes",
            "--folder",
            str(folder),
            "--port",
            str(port),
        ]
        command += ["--settings", str(folder / "settings.json"), "--without", ",".join(without)]
        command += ["--parent", str(os.getpid())]
        process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, env=_environment())
        mark = ""
        try:
            assert process.stdout
            told = json.loads(process.stdout.readline() or "{}")
            assert told, "the stand-in did not start"
            mark = told["mark"]
            yield cls(process, told["url"], told["control"], Path(told["kubeconfig"]), folder, mark)
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            if mark:
                kill_marked(mark)

    def tell(self, action: str, **values: Any) -> dict[str, Any]:
        """Posts an action to the side door, see control.py."""
        answer = _SIDE_DOOR.post(f"{self.control}/_standin/{action}", json=values)
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def set(self, **settings: Any) -> None:
        """Changes settings."""
        self.tell("settings", **settings)

    def fault(self, *more: dict[str, Any], **fault: Any) -> None:
        """Lets one fault wait, or several, instead of those before; see faults.py."""
        self.tell("faults", faults=[*([fault] if fault else []), *more])

    def down(self) -> None:
        """Takes the API away."""
        self.tell("down")

    def up(self) -> None:
        """Brings it back, at the port where it was."""
        self.tell("up")

    def stop(self, *controllers: str) -> None:
        """Stops these controllers (jobset, job, kueue, scheduler, kubelet, garbage), and starts all others."""
        self.set(stopped=list(controllers))

    def calls(self) -> list[str]:
        """Returns the calls since the last time, as `verb kind namespace/name`."""
        return list(self.tell("seen")["calls"])

    def inventory(self) -> dict[str, Any]:
        """Returns what there is: objects by kind, processes, streams."""
        result: dict[str, Any] = _SIDE_DOOR.get(f"{self.control}/_standin/inventory").json()
        return result

    def processes(self) -> list[int]:
        """Returns the processes that pods started and that still run."""
        return marked(self.mark)

    def nothing_left(self, *, but: tuple[str, ...] = ()) -> bool:
        """Says whether no object is there, apart from these kinds, and no pod's process."""
        told = self.inventory()
        return not set(told["objects"]) - set(but) and not told["processes"]

    def assert_nothing_left(self, *, but: tuple[str, ...] = (), seconds: float = PATIENCE_S) -> None:
        """Waits until nothing is left; fails with what is."""
        with contextlib.suppress(AssertionError):
            until(lambda: self.nothing_left(but=but), seconds)
        told = self.inventory()
        left = {kind: names for kind, names in told["objects"].items() if kind not in but}
        assert not left and not told["processes"], {"objects": left, "processes": told["processes"]}


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("KUBECONFIG",)}
