"""Which GPUs of this machine a run may use: all, or those that CUDA_VISIBLE_DEVICES leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tasks.targets.types import Worker, Workers

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_DEVICE = re.compile(r"nvidia\d+")


def usable(environ: Mapping[str, str], root: Path = Path("/")) -> int:
    """Returns how many GPUs a run may use here. `root` is where `proc` and `dev` are looked for."""
    named = _named(environ)
    if named is not None:
        return len(named)
    listed = list((root / "proc/driver/nvidia/gpus").glob("*"))
    # Containers often have the devices without the driver's list.
    devices = [path for path in (root / "dev").glob("nvidia*") if _DEVICE.fullmatch(path.name)]
    return max(len(listed), len(devices))


def own_gpus(workers: Workers, worker: Worker, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Returns what gives a worker GPUs of its own, in order, of those that may be used."""
    if workers.platform != "gpu":
        return {}
    count = workers.devices_per_worker
    wanted = range(worker.index * count, (worker.index + 1) * count)
    named = _named(environ)
    # Those beyond what is named, if any, are nobody's: the worker says that it got too few.
    names = [str(n) for n in wanted] if named is None else [named[n] for n in wanted if n < len(named)]
    return {_VISIBLE: ",".join(names)}


def _named(environ: Mapping[str, str]) -> list[str] | None:
    """Returns the GPUs named by number or UUID; None: all. As in CUDA, what is none ends the list."""
    value = environ.get(_VISIBLE)
    if value is None:
        return None
    named: list[str] = []
    for name in (entry.strip() for entry in value.split(",")):
        if not re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", name):
            break
        named.append(name)
    return named
