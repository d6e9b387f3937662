"""Puts an image of one layer into a real registry, by its API: no engine has it, and nothing of it is compressed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.cloud.image_names import image_name
from tasks.cloud.registry import OCI_MANIFEST, Registry

_KIND = "application/vnd.oci.image"


def push_layer(name: str, layer: Path, config: Mapping[str, Any], work: Path) -> None:
    """Pushes an image of one layer, a tar, with what `config` says about it."""
    whole = {
        "architecture": "amd64",
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    (work / "config").write_text(json.dumps(whole))
    parts = [
        {"mediaType": f"{_KIND}.{kind}", "digest": _digest(file), "size": file.stat().st_size}
        for kind, file in (("config.v1+json", work / "config"), ("layer.v1.tar", layer))
    ]
    manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": parts[0], "layers": parts[1:]}
    place = image_name(name)
    with Registry() as registry:
        for file, part in zip((work / "config", layer), parts, strict=True):
            registry.upload(place, file, part["digest"])
        registry.put(place, OCI_MANIFEST, json.dumps(manifest).encode())


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
