"""Images that need no engine: a folder put on a base, or one that is given. Each ends as repository@digest."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput
from tasks.cloud.image_append import Change, append_layer
from tasks.cloud.image_ignore import IGNORE_FILE
from tasks.cloud.image_layer import Layer, check_folder, pack_layer
from tasks.cloud.image_names import ImageName, checked_tag, image_name, made_tag, repository_name
from tasks.cloud.registry import Manifest, Registry

Say = Callable[[str], None]

DEFAULT_BASE = "docker.io/library/python:3.12-slim-bookworm"
WORKDIR = "/app"
"""Where the files of --script-dir are, and commands start."""

_TOLD = 3

KEY_LABEL = "slicebench.key"
"""The label that says what an image was made of: a hash over all of it."""


@dataclass(frozen=True)
class Made:
    """An image that is in its registry: `image` is `repository@digest`, what pods are given.

    `base` is the base by digest. `source` says what code it holds, `versions` what packages. `reused`: it was there.
    """

    image: str
    tag: str
    base: str = ""
    device: str = ""
    builder: str = ""
    reused: bool = False
    source: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def repository(self) -> str:
        """Host and path."""
        return image_name(self.image).repository


@dataclass(frozen=True)
class PlannedLayer:
    """What `layer` is to make: where it goes, of what; `made` is what it returns of it, but for the digest."""

    target: ImageName
    key: str
    base: Manifest
    packed: Layer
    made: Made


def plan_layer(
    folder: Path,
    repository: str,
    registry: Registry,
    work: Path,
    *,
    base: str = DEFAULT_BASE,
    tag: str | None = None,
    force: bool = False,
) -> PlannedLayer:
    """Says what `layer` would make, and makes nothing but the packed files, in `work`. Raises as it."""
    place = target_of(repository, tag)
    check_folder(folder)
    under = registry.image(image_name(base))
    packed = pack_layer(folder, work / "layer.tar.gz", WORKDIR.strip("/"))
    key = hashlib.sha256(f"{under.digest} {packed.diff_id} {WORKDIR}".encode()).hexdigest()
    target = place if tag else place.tagged(made_tag(folder.resolve().name, "", "", key))
    source = {"folder": str(folder.resolve()), "files": str(packed.files)}
    made = Made(str(target), str(target.tag), under.name.pinned(), source=source)
    if (there := taken(registry, target, key, force)) is not None:
        made = replace(made, image=there.pinned(), reused=True)
    return PlannedLayer(target, key, under, packed, made)


def layer(
    folder: Path,
    repository: str,
    registry: Registry,
    say: Say,
    *,
    base: str = DEFAULT_BASE,
    tag: str | None = None,
    force: bool = False,
) -> Made:
    """Puts the files of a folder on a base, below /app, by the registry alone, and returns the image.

    The same files on the same base are the same image, which is then not pushed again. Raises BadInput for what does
    not exist, a folder that nobody means, or a tag that is another image; InfrastructureError when a registry fails.
    """
    with tempfile.TemporaryDirectory(prefix="slicebench-layer-") as work:
        planned = plan_layer(folder, repository, registry, Path(work), base=base, tag=tag, force=force)
        made, packed = planned.made, planned.packed
        if packed.left_out:
            say(f"not in the image: {_some(packed.left_out)}; name what is not needed in {IGNORE_FILE}")
        if made.reused:
            say(f"{planned.target} is there already")
            return made
        labels = {KEY_LABEL: planned.key, "slicebench.base": made.base}
        change = Change(WORKDIR, labels, f"slicebench: files in {WORKDIR}")
        say(f"{counted(packed.files, 'file')}, {packed.size / 2**20:.1f} MiB, on {made.base}")
        image = append_layer(registry, planned.base, packed, change, planned.target, say)
    return replace(made, image=image.pinned())


def _some(left_out: tuple[str, ...]) -> str:
    more = f", and {len(left_out) - _TOLD} more" if len(left_out) > _TOLD else ""
    return ", ".join(left_out[:_TOLD]) + more


def given(text: str, registry: Registry) -> Made:
    """Returns an image that somebody brings, by digest; then nothing is built. Raises BadInput where there is none."""
    name = registry.resolve(image_name(text))
    return Made(name.pinned(), name.tag or "", reused=True, source={"image": text})


def one_way(docker_image: str | None, script_dir: str | None, base_image: str | None) -> None:
    """Raises BadInput where an image is given and others are to be made as well: which one is meant?"""
    flags = {"--script-dir": script_dir, "--base-image": base_image}
    making = [flag for flag, value in flags.items() if value is not None]
    if docker_image is not None and making:
        raise BadInput(
            f"--docker-image is taken as it is, and {' and '.join(making)} would make another one",
            fix="leave one of them out",
        )


def target_of(repository: str, tag: str | None) -> ImageName:
    """Returns where an image is to go. Raises BadInput for a repository or tag that is none."""
    place = repository_name(repository)
    return place.tagged(checked_tag(tag)) if tag is not None else place


def taken(registry: Registry, target: ImageName, key: str, force: bool) -> ImageName | None:
    """Returns the image of that tag when it is what would be made. Raises BadInput when it is another one."""
    digest = registry.find(target)
    if digest is None or force:
        return None
    config = registry.config(registry.image(target.at(digest)))
    if ((config.get("config") or {}).get("Labels") or {}).get(KEY_LABEL) == key:
        return target.at(digest)
    raise BadInput(
        f"{target} is there, and is another image", fix="choose another --tag, or write over it with --force"
    )
