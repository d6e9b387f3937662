"""Writes down what a worker ran on and with: versions, source, devices, flags, host and file system."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from runtime.contract.names import GIVEN_NAMES_VARIABLE, SOURCE_VARIABLE, manifest_file
from runtime.contract.redaction import REDACTED, Redaction, listed_names, secret_names, without_logins
from runtime.contract.sidecar import SIDECAR_VARIABLE
from runtime.output import is_remote, placing

SCHEMA_VERSION = 1

_PACKAGES = ("jax", "jaxlib", "orbax-checkpoint", "tensorstore", "numpy", "libtpu", "etils", "gcsfs")
_RECORDED = re.compile(r"(XLA|LIBTPU|TPU|JAX|ORBAX|TENSORSTORE|NCCL|CUDA|OMP|MALLOC|LD)_[A-Z0-9_]+")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|PRIVATE|API_?KEY")


def collect_manifest(output: str, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the manifest of this process as JSON values; sizes in bytes. JAX must have been initialised.

    `extra` goes in at the top: run, attempt, worker, points with their effective options.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        **(extra or {}),
        "captured_at": time.time(),
        "source": _source(os.environ.get(SOURCE_VARIABLE)),
        "versions": versions(),
        "devices": _devices(),
        **_sidecar(os.environ.get(SIDECAR_VARIABLE)),
        "environment": environment(os.environ),
        "environment_given": sorted(listed_names(os.environ, GIVEN_NAMES_VARIABLE)),
        "host": _host(),
        "output": {"uri": output, "file_system": file_system(output)},
    }


def write_manifest(manifest: Mapping[str, Any], output: str, attempt: int, worker: int, scratch: Path) -> str:
    """Writes a manifest into the run's folder and returns its name there."""
    name = manifest_file(attempt, worker)
    with placing(output, name, scratch) as path:
        path.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return name


def versions(packages: Iterable[str] = _PACKAGES) -> dict[str, str]:
    """Returns the version of Python and of each package that is installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that change what JAX, XLA and the stores do, and all that the run was given.

    Secret values are replaced: of what SLICEBENCH_SECRET_ENV names and what looks like a secret by its name, and
    wherever such a value, or a password in a URL, stands within another.
    """
    secret = secret_names(variables)
    recorded = secret | listed_names(variables, GIVEN_NAMES_VARIABLE)
    redact = Redaction.of_environment(variables)
    return {
        name: REDACTED if name in secret or _SECRET.search(name) else without_logins(redact(value))
        for name, value in sorted(variables.items())
        if name in recorded or _RECORDED.fullmatch(name)
    }


def file_system(output: str) -> str:
    """Returns the type of the file system under `output` in the kernel's words, or a bucket's scheme."""
    if is_remote(output):
        return output.partition("://")[0]
    path = Path(output).resolve()
    try:
        table = Path("/proc/self/mountinfo").read_text()
    except OSError:
        return "unknown"
    best, kind = -1, "unknown"
    for line in table.splitlines():
        fields = line.split()
        mount = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if path.is_relative_to(mount) and len(mount) >= best:  # a later mount covers an earlier one
            best, kind = len(mount), fields[fields.index("-") + 1]
    return kind


def _source(told: str | None) -> Any:
    """Returns what the control side said is under test; without it, only versions are known."""
    return {"commit": "unknown"} if told is None else json.loads(told)


def _sidecar(told: str | None) -> dict[str, Any]:
    """Returns what stands beside the worker, where anything does."""
    return {"sidecar": json.loads(told)} if told else {}


def _devices() -> dict[str, Any]:
    import jax

    local = jax.local_devices()
    return {
        "platform": local[0].platform,
        "kind": local[0].device_kind,
        "count": jax.device_count(),
        "local_count": len(local),
        "local_ids": [device.id for device in local],
        "process_index": jax.process_index(),
        "process_count": jax.process_count(),
        "slices": sorted({getattr(device, "slice_index", 0) or 0 for device in jax.devices()}),
    }


def _host() -> dict[str, Any]:
    return {
        "hostname": socket.gethostname(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpu_usable": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    }


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown"
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else "unknown"
