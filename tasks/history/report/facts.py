"""What ran where, as pairs of words for people. Pure; says nothing of what nobody recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.history.labels import plain
from tasks.history.quantities import moment, size
from tasks.history.results import Results

Pairs = list[tuple[str, str]]


def facts(results: Results, request: Mapping[str, Any], image: Mapping[str, Any]) -> Pairs:
    """Returns terms and values. `request` is request.json, `image` what the build stage wrote down; both may
    be empty.

    Of the environment only names are taken from the request: its values may be secret.
    """
    return [(term, value) for term, value in _facts(results, request, image) if value]


def environment(results: Results) -> Pairs:
    """Returns the variables that the worker recorded; it has replaced secret values itself."""
    return [(name, str(value)) for name, value in _section(results.manifest, "environment").items()]


def _facts(
    results: Results, request: Mapping[str, Any], image: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    devices, host = _section(results.manifest, "devices"), _section(results.manifest, "host")
    versions = _section(results.manifest, "versions") or _section(image, "versions")
    told = _section(results.manifest, "source")
    source = told if _known(told.get("commit")) else _section(image, "source")
    yield "Suite", results.suite
    yield "Target", results.target
    workers = f"{results.workers} worker{'s' * (results.workers > 1)}"
    local = devices.get("local_count")
    yield "Hardware", f"{workers} × {local} device{'s' * (local != 1)}" if local else workers
    kind, platform = _known(devices.get("kind")), _known(devices.get("platform"))
    yield "Device", kind if kind.lower() == platform.lower() else f"{kind} ({platform})"
    yield "Host", ", ".join(_host(host))
    yield "First sample", moment(results.started_at)
    yield "Attempts", ", ".join(f"{attempt.n}: {attempt.end}" for attempt in results.attempts)
    yield "Orbax", " ".join(filter(None, (_known(versions.get("orbax-checkpoint")), _source(source))))
    yield (
        "Versions",
        ", ".join(f"{name} {version}" for name, version in versions.items() if name != "orbax-checkpoint"),
    )
    yield "Image", " ".join(filter(None, (_known(image.get("kind")), _known(image.get("reference")))))
    yield "Storage", results.fingerprint.get("storage", "")
    beside = _section(results.manifest, "sidecar")
    keys = beside.get("keys")
    encrypted = [f"{place} by {key}" for place, key in keys.items()] if isinstance(keys, Mapping) else []
    yield "Beside the workers", _known(beside.get("series"))
    yield "Encrypted", ", ".join(encrypted)
    asked = {str(line).partition("=")[0] for line in request.get("env") or ()}
    # What came out of env files, the workers know.
    asked.update(str(name) for name in results.manifest.get("environment_given") or ())
    yield "Environment asked for", ", ".join(sorted(asked))
    yield "Overrides", ", ".join(str(line) for line in request.get("set") or ())
    yield "Samples", f"{results.samples}"


def settings(
    options: Mapping[str, Any], mesh: Mapping[str, Any] | None, checkpoint: Mapping[str, Any] | None
) -> Pairs:
    """Returns the effective options of a point, its mesh and its checkpoint, each as YAML would have it."""
    told = [(name, plain(value)) for name, value in sorted(options.items())]
    for prefix, group in (("mesh", mesh), ("checkpoint", checkpoint)):
        told += [
            (f"{prefix}: {name}", plain(value))
            for name, value in (group or {}).items()
            if value not in (None, False)
        ]
    return told


def _host(host: Mapping[str, Any]) -> Iterator[str]:
    if host.get("cpu_model"):
        yield str(host["cpu_model"])
    if host.get("cpu_usable"):
        yield f"{host['cpu_usable']} CPUs"
    if isinstance(host.get("memory_bytes"), int | float):
        yield size(float(host["memory_bytes"]))


def _source(source: Mapping[str, Any]) -> str:
    if source.get("ref") == "released":
        return "(as released)"
    told = [_known(source.get(name)) for name in ("repo", "ref", "commit")]
    told.append("with local changes" if source.get("dirty") == "true" else "")
    return f"({', '.join(filter(None, told))})" if any(told) else ""


def _section(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = manifest.get(name)
    return found if isinstance(found, Mapping) else {}


def _known(value: Any) -> str:
    return "" if value in (None, "", "unknown") else str(value)
