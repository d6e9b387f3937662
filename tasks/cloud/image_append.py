"""An image made of another one and a layer, by the registry's API alone: no engine, nothing unpacked."""

from __future__ import annotations

import copy
import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.contract.errors import BadInput
from tasks.cloud.disk import on_disk
from tasks.cloud.image_layer import Layer
from tasks.cloud.image_names import ImageName
from tasks.cloud.registry import DOCKER_MANIFEST, OCI_MANIFEST, Manifest, Registry

Say = Callable[[str], None]

_AT_ONCE = 4
_LAYER = {
    OCI_MANIFEST: "application/vnd.oci.image.layer.v1.tar+gzip",
    DOCKER_MANIFEST: "application/vnd.docker.image.rootfs.diff.tar.gzip",
}
_CONFIG = {
    OCI_MANIFEST: "application/vnd.oci.image.config.v1+json",
    DOCKER_MANIFEST: "application/vnd.docker.container.image.v1+json",
}


@dataclass(frozen=True)
class Change:
    """What the new image says besides its layer: where its commands start, its labels, and why it is there."""

    workdir: str
    labels: Mapping[str, str] = field(default_factory=dict)
    created_by: str = "slicebench"


def appended_config(base: Mapping[str, Any], layer: Layer, change: Change) -> dict[str, Any]:
    """Returns the configuration of the new image. Its time is the base's: the same inputs make the same image."""
    config = copy.deepcopy(dict(base))
    layers = len(config.get("rootfs", {}).get("diff_ids", ()))
    config.setdefault("rootfs", {"type": "layers"}).setdefault("diff_ids", []).append(layer.diff_id)
    inner = config.get("config") or {}
    inner["WorkingDir"] = change.workdir
    inner["Labels"] = {**(inner.get("Labels") or {}), **change.labels}
    config["config"] = inner
    history = config.get("history") or []
    # A history that does not tell of each layer must not be made to look as if it did.
    if len([entry for entry in history if not entry.get("empty_layer")]) == layers:
        created = {"created": config["created"]} if "created" in config else {}
        config["history"] = [*history, {**created, "created_by": change.created_by}]
    return config


def appended_manifest(
    base: Mapping[str, Any], media_type: str, config: bytes, layer: Layer
) -> dict[str, Any]:
    """Returns the manifest of the new image, of the base's kind."""
    manifest = copy.deepcopy(dict(base))
    manifest["mediaType"] = media_type
    manifest.pop("subject", None)  # what the base was said about, the new image is not
    manifest["config"] = {
        "mediaType": _CONFIG[media_type],
        "digest": _digest(config),
        "size": len(config),
    }
    manifest["layers"] = [
        *manifest["layers"],
        {"mediaType": _LAYER[media_type], "digest": layer.digest, "size": layer.size},
    ]
    return manifest


def append_layer(
    registry: Registry, base: Manifest, layer: Layer, change: Change, target: ImageName, say: Say
) -> ImageName:
    """Makes the image in the repository and under the tag of `target`; returns it by digest.

    What the base is made of is mounted, or copied where it lies in another registry. Whether the tag is taken is for
    the caller to see. Raises RegistryError.
    """
    content = base.content
    if "config" not in content or not isinstance(content.get("layers"), list):
        raise BadInput(f"{base.name} has no layers", fix="name an image, not what was made about one")
    config = _plain_json(appended_config(registry.config(base), layer, change))
    manifest = _plain_json(appended_manifest(content, base.media_type, config, layer))
    full = on_disk("keep parts of an image for a while", "set TMPDIR to a folder on another disk")
    with full, tempfile.TemporaryDirectory(prefix="slicebench-image-") as folder:
        work = Path(folder)
        _bring_all(registry, base, content["layers"], target, work, say)
        (work / "config").write_bytes(config)
        for what, file, digest in (
            ("its configuration", work / "config", _digest(config)),
            ("the layer", layer.file, layer.digest),
        ):
            if registry.has_blob(target, digest):  # of another image, or left there by who was killed
                say(f"{what}, {digest[7:19]}, is in {target.repository} already")
            else:
                registry.upload(target, file, digest)
    return registry.put(target, base.media_type, manifest)


def _bring_all(
    registry: Registry, base: Manifest, layers: list[dict[str, Any]], target: ImageName, work: Path, say: Say
) -> None:
    # Layers with addresses of their own are not for us to spread; the same one may be there twice.
    wanted = {entry["digest"]: entry["size"] for entry in layers if not entry.get("urls")}
    if base.name.repository == target.repository:
        return
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="image") as pool:
        for brought in pool.map(lambda digest: _bring(registry, base.name, digest, target, work), wanted):
            if brought is not None:
                say(
                    f"copied layer {brought[7:19]} of {base.name.repository}, {wanted[brought] / 2**20:.1f} MiB"
                )


def _bring(registry: Registry, source: ImageName, digest: str, target: ImageName, work: Path) -> str | None:
    """Makes sure that a blob is in a repository; returns its digest where it had to be copied."""
    if registry.has_blob(target, digest):
        return None
    if source.host == target.host and registry.mount(target, digest, source):
        return None
    file = work / digest.replace(":", "-")
    registry.download(source, digest, file)
    registry.upload(target, file, digest)
    file.unlink()
    return digest


def _plain_json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
