"""What must be equal for two numbers to be comparable; the versions under test are not part of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FIELDS: Mapping[str, str] = {
    "platform": "platform",
    "device_kind": "device",
    "workers": "workers",
    "devices": "devices of each worker",
    "slices": "slices",
    "host": "host",
    "cpus": "CPUs of each worker",
    "storage": "storage",
}
"""The parts of a fingerprint, with the words people read."""


def fingerprint(
    manifests: Sequence[Mapping[str, Any]], *, workers: int, slices: int, output: str
) -> dict[str, str]:
    """Returns the fingerprint of a run from its workers' manifests and from what it was asked to run on.

    Workers that differ from each other give all their values, so that a mixed fleet is comparable only with
    its like. What no manifest tells stays `unknown`, which is comparable only with unknown.
    """

    return {
        "platform": _told(manifests, "devices", "platform"),
        "device_kind": _told(manifests, "devices", "kind"),
        "workers": str(workers),
        "devices": _told(manifests, "devices", "local_count"),
        "slices": str(slices),
        "host": _told(manifests, "host", "cpu_model"),
        "cpus": _told(manifests, "host", "cpu_usable"),
        "storage": "gs" if output.startswith("gs://") else _told(manifests, "output", "file_system"),
    }


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    """Says in words where two fingerprints differ; None when the runs are comparable."""
    unequal = [
        f"{words} {theirs.get(name, 'unknown')} instead of {ours.get(name, 'unknown')}"
        for name, words in FIELDS.items()
        if ours.get(name, "unknown") != theirs.get(name, "unknown")
    ]
    return ", ".join(unequal) or None


def _told(manifests: Sequence[Mapping[str, Any]], section: str, name: str) -> str:
    sections = (manifest.get(section) for manifest in manifests)
    values = {str(found[name]) for found in sections if isinstance(found, Mapping) and name in found}
    return " + ".join(sorted(values)) or "unknown"
