"""What must be equal for two numbers to be comparable; the versions under test are not part of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.contract.redaction import REDACTED

ENVIRONMENT = "environment"
SIDECAR = "sidecar"

FIELDS: Mapping[str, str] = {
    "platform": "platform",
    "device_kind": "device",
    "workers": "workers",
    "devices": "devices of each worker",
    "slices": "slices",
    "host": "host",
    "cpus": "CPUs of each worker",
    "storage": "storage",
    "target": "target",
    "type": "type",
    "topology": "topology",
    "region": "region",
    ENVIRONMENT: "variables given",
    SIDECAR: "sidecar",
}
"""The parts of a fingerprint, with the words people read."""

_NONE = dict.fromkeys(("target", "type", "topology", "region", ENVIRONMENT, SIDECAR), "none")
"""What counts where a fingerprint lacks a part; else `unknown`. Machines that are of no type, and runs that were
given no variables and no sidecar, lack these parts: so do fingerprints from before there were such parts, and their
series go on."""


def fingerprint(
    manifests: Sequence[Mapping[str, Any]],
    *,
    workers: int,
    slices: int,
    output: str,
    machine: Mapping[str, str] | None = None,
    bucket: str | None = None,
) -> dict[str, str]:
    """Returns the fingerprint of a run from its workers' manifests and from what it was asked to run on.

    `machine` is what the target knows of its machines, see Plan, as far as there is such. `bucket` is what an output
    in Cloud Storage says of itself, its storage class and its location; None: it does not tell.

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
        "storage": _storage(manifests, output, bucket),
        **{name: told for name, told in (machine or {}).items() if told},
        **_given(manifests),
        **_beside(manifests),
    }


def canonical(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """Returns what a series is named after: every part of a fingerprint, and nothing else that it says."""
    whole = {name: fingerprint.get(name, _NONE.get(name, "unknown")) for name in FIELDS}
    return {name: value for name, value in whole.items() if value != _NONE.get(name)}


def of_machine(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """Returns what of it is said of the machine, whatever runs there."""
    return {
        name: value for name, value in canonical(fingerprint).items() if name not in (ENVIRONMENT, SIDECAR)
    }


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
    """Says in words where two fingerprints differ; None when the runs are comparable."""
    told = [
        (words, *(one.get(name, _NONE.get(name, "unknown")) for one in (theirs, ours)))
        for name, words in FIELDS.items()
    ]
    return (
        ", ".join(f"{words} {one} instead of {other}" for words, one, other in told if one != other) or None
    )


def _storage(manifests: Sequence[Mapping[str, Any]], output: str, bucket: str | None) -> str:
    if not output.startswith("gs://"):
        return _told(manifests, "output", "file_system")
    return f"gs {bucket}" if bucket else "gs"


def _given(manifests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the variables that the run was given (`--env`, files of them, the target's `env`) with their values:
    any may change what is measured. Secrets are no part of it, neither value nor name."""
    told = set()
    for manifest in manifests:
        names, values = manifest.get("environment_given"), manifest.get("environment")
        if isinstance(names, list) and isinstance(values, Mapping):
            here = {name: str(values[name]) for name in sorted(map(str, names)) if name in values}
            told.add(" ".join(f"{name}={value}" for name, value in here.items() if REDACTED not in value))
    given = " + ".join(sorted(told - {""}))
    return {ENVIRONMENT: given} if given else {}


def _beside(manifests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns what stood between the workers and their storage, where anything did: it costs time."""
    told = _told([manifest for manifest in manifests if "sidecar" in manifest], "sidecar", "series")
    return {} if told == "unknown" else {SIDECAR: told}


def _told(manifests: Sequence[Mapping[str, Any]], section: str, name: str) -> str:
    sections = (manifest.get(section) for manifest in manifests)
    values = {str(found[name]) for found in sections if isinstance(found, Mapping) and name in found}
    return " + ".join(sorted(values)) or "unknown"
