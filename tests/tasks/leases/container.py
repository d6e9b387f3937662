"""The reaper's container, as far as it can be had without a container engine: just the files that its image has, in
a bare process on what is another machine to it, with a home, an environment and the packages of its own lock. It only
looks more often than the real one whether TPUs are gone.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
DEPLOYMENT = ROOT / "deployments" / "reaper"
HOST = "slicebench-reaper-29f"
"""What the container takes its machine for: a name that no launching machine has, and no machine id."""

_BARE = f"""if True:
    import pathlib, runpy, socket, sys
    for module in sys.argv.pop(1).split(","):
        sys.modules[module] = None
    socket.gethostname = lambda: {HOST!r}
    from tasks.leases import machine, tpus
    tpus.InCloudTpu.usual = tpus.Pace(look_every_s=0.05, goes_within_s=900.0, remote=True)
    machine._MACHINE_ID = pathlib.Path("/nowhere/machine-id")
    runpy.run_module("tasks.leases.reap_once", run_name="__main__")
"""


@dataclass(frozen=True)
class Reaped:
    """What became of one start: exit code, what was printed as JSON, and what was said."""

    code: int
    told: Mapping[str, Any]
    said: str

    @property
    def did(self) -> Mapping[str, str]:
        """What was done about each lease."""
        return {one["lease_id"]: one["did"] for one in self.told["findings"]}


def lay_image(app: Path) -> Path:
    """Lays into a folder what the Dockerfile copies, and nothing else; returns it."""
    for sources, into in re.findall(
        r"^COPY (.+) (\S+)$", (DEPLOYMENT / "Dockerfile").read_text(), re.MULTILINE
    ):
        for source in sources.split():
            there = app / into / Path(source).name if into.endswith("/") else app / into
            there.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, there, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(ROOT / source, there)
    return app


def of_the_clouds(name: str) -> bool:
    """Whether a variable of the environment says where a cloud is, or as whom it is asked."""
    return "ENDPOINT" in name or "EMULATOR" in name or name == "GOOGLE_APPLICATION_CREDENTIALS"


@lru_cache
def absent() -> Sequence[str]:
    """Returns the modules that are here and not in the container: of packages that its lock does not name."""
    pinned = (DEPLOYMENT / "requirements.lock").read_text()
    there = {_plain(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", pinned, re.MULTILINE)}
    return [
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if module.isidentifier() and not there & {_plain(one) for one in packages}
    ]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def enter(image: Path, home: Path, *words: str) -> Reaped:
    """Runs the image's entry point. Of this environment it has only where clouds are, and a login."""
    clouds = {name: value for name, value in os.environ.items() if of_the_clouds(name)}
    done = subprocess.run(
        [sys.executable, "-c", _BARE, ",".join(absent()), "--json", *words],
        env={**clouds, "PYTHONPATH": str(image), "HOME": str(home)},
        cwd=image,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return Reaped(done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr)
