"""Baselines of Orbax's own runner as rows of the history. Pure. Their format: Orbax's benchmarks/core/baseline.py.

One baseline says of each metric what its repeats came to on all hosts together, as mean, largest and smallest. It names
neither mesh nor checkpoint, so its series are its own: never joined with what slicebench measured.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runtime.contract.errors import BadInput, Place, Problem
from runtime.contract.metrics import TIME
from tasks.history.dataset.rows import MEASURED, machine_id, series_id
from tasks.history.dataset.schema import Row
from tasks.history.fingerprint import canonical

VERSION = 1
"""Of Orbax's schema: the only one that there is."""

TRACK = "Orbax's own runner"

_TIME = "0_basics/time_s"
_MIB, _GIB = 2.0**20, 2.0**30
_UNITS = (
    # Orbax's ending, ours, the unit, how many of it one of theirs is. Its GB and Gbps are GiB and GiB/s.
    ("_gbps", "_bytes_per_s", "bytes/s", _GIB),
    ("_gb", "_bytes", "bytes", _GIB),
    ("_mb", "_bytes", "bytes", _MIB),
    ("_s", "_s", "s", 1.0),
)
_LARGEST = ("s", "bytes")
"""Units of which the host with most counts, as with our own: the slowest, the fullest."""
_SECTIONS = ("0_basics/", "2_save_breakdown/", "3_load_breakdown/", "4_throughput/", "7_memory/")
"""What is taken. The rest are counters, and what Orbax has no name for: moments in time whose mean says nothing."""
_HASH = re.compile(r"_[0-9a-f]{12}$")


def is_baseline(content: Any) -> bool:
    """Says whether a JSON document is one of Orbax's baselines, whatever else is wrong with it."""
    return isinstance(content, Mapping) and {"schema_version", "benchmark_name", "metrics"} <= content.keys()


def rows_of_baseline(content: bytes, where: str) -> list[Row]:
    """Returns a row for each metric of a baseline. Raises BadInput, with the place and why, for what is none."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise _refused(where, f"it is not JSON: {error}") from error
    if not is_baseline(document):
        raise _refused(where, "it has no schema_version, benchmark_name and metrics")
    if document["schema_version"] != VERSION:
        raise _refused(where, f"its schema_version is {document['schema_version']}, known is {VERSION}")
    try:
        at = datetime.datetime.fromisoformat(str(document["captured_at"]))
        at = at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
        common = _common(document, at.timestamp(), where)
        return [common | row for row in _metrics(document["metrics"], common)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _refused(where, f"{type(error).__name__}: {error}") from error


def _common(document: Mapping[str, Any], at: float, where: str) -> dict[str, Any]:
    manifest = document.get("manifest") or {}
    name = _HASH.sub("", str(document["benchmark_name"]))
    config, fixture = document.get("config") or {}, document.get("fixture") or "generated"
    key = hashlib.sha256(_plain([name, config, fixture]).encode()).hexdigest()[:16]
    fingerprint = _fingerprint(manifest)
    commit = str(document.get("captured_at_sha") or "unknown")
    versions = {
        "orbax-checkpoint": manifest.get("orbax_version"),
        "jax": manifest.get("jax_version"),
        "commit": None if commit == "unknown" else commit,
    }
    return {
        "run_id": f"orbax-{commit[:12]}-{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y%m%d-%H%M%S}",
        "began_at": at,
        "collected_at": at,
        "suite": "Orbax baseline",
        "benchmark": name,
        "benchmark_key": key,
        "label": f"{name} {key[:4]}",
        "generator": name,
        "implementation": "orbax",
        "machine": machine_id(fingerprint),
        "fingerprint": _plain(fingerprint),
        "track": TRACK,
        "versions": _plain({name: found for name, found in versions.items() if found}),
        "definition": _plain({"options": config, "fixture": fixture}),
        "status": MEASURED,
        "origin": where,
    }


def _fingerprint(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Returns what a baseline tells of its machine; it tells neither the host's type nor the storage."""
    workers, devices = manifest.get("jax_process_count"), manifest.get("jax_device_count")
    told: dict[str, object] = {
        "platform": manifest.get("backend"),
        "device_kind": manifest.get("jax_device_kind"),
        "workers": workers,
        "devices": devices // workers
        if isinstance(workers, int) and isinstance(devices, int) and workers
        else None,
    }
    return canonical({name: str(value) for name, value in told.items() if value})


def _metrics(metrics: Mapping[str, Any], common: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    fingerprint = json.loads(common["fingerprint"])
    for key, stats in metrics.items():
        operation, colons, metric = key.partition("::")
        if not colons or not metric.startswith(_SECTIONS):
            continue
        name, unit, factor = _named(metric)
        stat = "max" if unit in _LARGEST and "max" in stats else "mean"
        value = float(stats[stat])
        yield {
            "series": series_id(common["benchmark_key"], operation, name, fingerprint, TRACK),
            "operation": operation,
            "metric": name,
            "unit": unit,
            "values": [value * factor if math.isfinite(value) else math.nan],
        }


def _named(metric: str) -> tuple[str, str, float]:
    """Returns one of Orbax's metrics as ours: name, unit, and what its values are multiplied by."""
    if metric == _TIME:
        return TIME, "s", 1.0
    for ending, ours, unit, factor in _UNITS:
        if metric.endswith(ending):
            return f"orbax/{metric.removesuffix(ending)}{ours}", unit, factor
    return f"orbax/{metric}", "count", 1.0


def _plain(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _refused(where: str, why: str) -> BadInput:
    fix = "name a file that Orbax's runner wrote into its baseline_capture_path"
    return BadInput(Problem("error", Place(where), "this is no baseline of Orbax's", why, fix))
