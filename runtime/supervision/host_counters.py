"""Counts what a host's processors, memory, networks and disks do while its worker runs; the kernel's own counters.

One JSON object a line, into HOST_FILE of the worker's scratch, whence sealing brings it into the run's folder:

    {"at": 1764312000.1, "host": "vm-0", "cpu_s": {"all": {"user": 12.1, "system": 3.2, "iowait": 0.1, "steal": 0.0,
     "idle": 80.3}}, "memory_bytes": {"total": …, "available": …, "cached": …, "dirty": …, "writeback": …},
     "network_bytes": {"eth0": {"received": …, "sent": …}}, "disk_bytes": {"sda": {"read": …, "written": …}},
     "tpu": {"0": {"memory_used_bytes": …, "memory_total_bytes": …, "duty_cycle_percent": …}}}

`at` is seconds since the epoch. Processor time, network and disk count up from the host's boot, for all processes.
Processors are `all` in one class, or in several by how fast they are where the kernel says that they differ. `tpu` is
there where a TPU's runtime answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_EVERY_S = 1.0
_OFTEN = 1000
"""So that files stay small: from then on, a sample for each thousandth of the time that has passed."""

_LAST_SAMPLE_S = 1.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SECTOR_BYTES = 512
"""In /proc/diskstats, whatever the device's own sectors are."""

_NOT_DISKS = re.compile(r"(loop|ram|zram|dm-|md|sr|fd)\d+")
"""Devices that hold nothing themselves: what goes through them is counted where it lands."""

_MEMORY = {
    "MemTotal": "total",
    "MemAvailable": "available",
    "Cached": "cached",
    "Dirty": "dirty",
    "Writeback": "writeback",
}

Counters = dict[str, Any]


def read(root: Path = Path("/")) -> Counters:
    """Returns all counters that this host shows, without `at` and `host`; those it does not show are left out."""
    found: Counters = {}
    sources: Mapping[str, Callable[[Path], Mapping[str, Any]]] = {
        "cpu_s": _processors,
        "memory_bytes": _memory,
        "network_bytes": _networks,
        "disk_bytes": _disks,
    }
    for name, source in sources.items():
        with contextlib.suppress(OSError):  # some containers hide some
            found[name] = source(root)
    return found


class HostCounters:
    """Samples in a thread of its own until `stop`. What goes wrong is told once, and ends the sampling only."""

    def __init__(
        self,
        path: Path,
        say: Callable[[str], None],
        tpu: Callable[[], Mapping[str, Any]] | None = None,
        every_s: float = _EVERY_S,
    ) -> None:
        """`tpu` returns what the TPU's runtime says, nothing while it does not answer."""
        self._path, self._say, self._tpu, self._every_s = path, say, tpu, every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="host counters", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Takes a last sample and ends."""
        self._stopping.set()
        self._thread.join(_LAST_SAMPLE_S)

    def _sample(self) -> None:
        host, began = socket.gethostname(), time.monotonic()
        try:
            with self._path.open("ab", buffering=0) as file:
                while True:
                    last = self._stopping.is_set()
                    sample = {"at": round(time.time(), 3), "host": host, **read()}
                    if self._tpu is not None and (told := self._tpu()):
                        sample["tpu"] = told
                    file.write(json.dumps(sample, separators=(",", ":")).encode() + b"\n")
                    if last:
                        return
                    self._stopping.wait(max(self._every_s, (time.monotonic() - began) / _OFTEN))
        except (OSError, ValueError) as error:
            self._say(f"the host's counters are no longer taken: {error}")


def _processors(root: Path) -> dict[str, dict[str, float]]:
    classes = _classes(root)
    found: dict[str, dict[str, float]] = {}
    for line in (root / "proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        group = "all" if name == "cpu" and not classes else classes.get(name)
        if group is not None:
            user, nice, system, idle, iowait, irq, softirq, steal = (int(each) for each in ticks[:8])
            kinds = {"user": user + nice, "system": system + irq + softirq, "iowait": iowait}
            total = found.setdefault(group, {})
            for kind, value in {**kinds, "steal": steal, "idle": idle}.items():
                total[kind] = total.get(kind, 0.0) + value / _TICKS_PER_S
    return found


def _classes(root: Path) -> dict[str, str]:
    """Returns processor → class, by its capacity or highest frequency; nothing when all are alike."""
    found: dict[str, str] = {}
    for folder in (root / "sys/devices/system/cpu").glob("cpu[0-9]*"):
        for name, told in (("cpu_capacity", "capacity {}"), ("cpufreq/cpuinfo_max_freq", "{} kHz")):
            with contextlib.suppress(OSError):
                found[folder.name] = told.format((folder / name).read_text().strip())
                break
    return found if len(set(found.values())) > 1 else {}


def _memory(root: Path) -> dict[str, int]:
    found = {}
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in _MEMORY:
            found[_MEMORY[name]] = int(value.split()[0]) * 1024
    return found


def _networks(root: Path) -> dict[str, dict[str, int]]:
    found = {}
    for line in (root / "proc/net/dev").read_text().splitlines()[2:]:
        name, _, values = line.partition(":")
        fields = values.split()
        found[name.strip()] = {"received": int(fields[0]), "sent": int(fields[8])}
    return found


def _disks(root: Path) -> dict[str, dict[str, int]]:
    whole = {path.name for path in (root / "sys/block").iterdir()}
    found = {}
    for line in (root / "proc/diskstats").read_text().splitlines():
        fields = line.split()
        name = fields[2]
        if name in whole and not _NOT_DISKS.fullmatch(name):
            read_sectors, written_sectors = int(fields[5]), int(fields[9])
            found[name] = {"read": read_sectors * _SECTOR_BYTES, "written": written_sectors * _SECTOR_BYTES}
    return found
