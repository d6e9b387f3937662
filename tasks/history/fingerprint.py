"""What must be equal for two numbers to be comparable; the versions under test are not part of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FIELDS: Mapping[str, str] = {
    "platform": "platform",
    "device_kind": "device",
    "workers": "workers",
    "devices": "devices of each worker",
    "slices": "slices",
    "host": "host type",
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

    def told(read: str) -> str:
        return _joined(_text(_field(manifest, read)) for manifest in manifests)

    return {
        "platform": told("platform"),
        "device_kind": told("device_kind"),
        "workers": str(workers),
        "devices": told("local_device_count"),
        "slices": str(slices),
        "host": told("host"),
        "storage": _storage(output, manifests),
    }


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    """Says in words where two fingerprints differ; None when the runs are comparable."""
    unequal = [
        f"{words} {theirs.get(name, 'unknown')} instead of {ours.get(name, 'unknown')}"
        for name, words in FIELDS.items()
        if ours.get(name, "unknown") != theirs.get(name, "unknown")
    ]
    return ", ".join(unequal) or None


def _field(manifest: Mapping[str, Any], name: str) -> Any:
    if name == "host":
        return manifest.get("machine_type") or manifest.get("cpu_model")
    return manifest.get(name)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple | set):
        return _joined(str(item) for item in value)
    return "unknown" if value is None else str(value)


def _joined(values: Iterable[str]) -> str:
    return " + ".join(sorted(set(values))) or "unknown"


def _storage(output: str, manifests: Sequence[Mapping[str, Any]]) -> str:
    if output.startswith("gs://"):
        return "gs"
    return _joined(_text(manifest.get("file_system")) for manifest in manifests).replace("unknown", "local")
