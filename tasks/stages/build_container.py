"""Build where containers run: the image of a run's source in the target's repository, made there if it is missing."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.image_builders import choose_builder
from tasks.cloud.image_names import image_name, repository_name
from tasks.cloud.registry import Registry
from tasks.cloud.resolve import Lock
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.spec import RunSpec
from tasks.stages.context import Run, Say
from tasks.stages.image import DEFAULT_BASE, Made, layer, plan_layer
from tasks.stages.image_build import Planned, Wanted, carry_out
from tasks.stages.image_build import plan as plan_image
from tasks.stages.recipes import built_before, pinned
from tasks.stages.usercode import needs_orbax_classes
from tasks.targets.pathways_match import check_image, refuse_mismatch
from tasks.targets.types import Image


def build_container(run: Run, config: GkeTargetConfig, lock: Lock) -> Image:
    """Makes sure that the image is in its registry, and writes the marker, with tag and digest.

    A run that has the marker keeps its image; where that was deleted since, the same commit is built again. Who dies
    while it is built or pushed leaves no tag, or the one that the next finds: a tag is made of what is in the image.
    Raises BadInput and InfrastructureError as `image_build.build` and `image.layer`.
    """
    spec = run.spec
    with Registry() as registry:
        if (last := built_before(run)) is not None:
            before, _ = last
            if registry.find(image_name(before.reference)) is not None:
                return replace(before, reused=True)
            run.say(f"image {before.reference} of this run is gone")
            if folder_of(config) is None:
                spec = replace(spec, source=pinned(spec.source, before))
        made = _made(spec, config, registry, run.say, lock)
    source = {**made.source, "image": f"{made.repository}:{made.tag}", "base": made.base}
    image = Image("container", made.image, "python", source, dict(made.versions), made.reused)
    run.say(f"image {made.image}, {made.tag}: {'is there already' if made.reused else 'built and pushed'}")
    run.mark("build", key=made.tag, inputs={}, image=asdict(image))
    return image


def plan_container(spec: RunSpec, config: GkeTargetConfig, lock: Lock, say: Say) -> Made:
    """Says which image `build_container` would make, and whether it is there. Makes nothing. Raises as it."""
    folder, how = folder_of(config), config.build
    with Registry() as registry:
        if how is None or how.base is None or folder is None:
            return _planned(spec, config, registry, say, lock).made
        _match_base(config, how.base, registry, say)
        with tempfile.TemporaryDirectory(prefix="slicebench-layer-") as work:
            return plan_layer(folder, _repository(how.repository), registry, Path(work), base=how.base).made


def folder_of(config: GkeTargetConfig) -> Path | None:
    """Returns the folder whose files are put on a base; None where an engine builds, or nothing is."""
    if config.build is None or config.build.script_dir is None:
        return None
    return Path(config.build.script_dir).expanduser()


def _repository(text: str) -> str:
    """Returns where the image goes. Raises BadInput for a name that is none, in the words of a target."""
    repository_name(text, "build.repository", "leave the tag to what is in the image")
    return text


def no_builder(config: GkeTargetConfig) -> str:
    """Returns why nothing here could build the image of a target; empty: something can."""
    try:
        choose_builder(config.build.builder if config.build else None)
    except InfrastructureError as error:
        return str(error)
    return ""


def _made(spec: RunSpec, config: GkeTargetConfig, registry: Registry, say: Say, lock: Lock) -> Made:
    folder, how = folder_of(config), config.build
    if how is None or how.base is None or folder is None:
        return carry_out(_planned(spec, config, registry, say, lock), registry, say)
    _match_base(config, how.base, registry, say)
    return layer(folder, _repository(how.repository), registry, say, base=how.base)


def _planned(spec: RunSpec, config: GkeTargetConfig, registry: Registry, say: Say, lock: Lock) -> Planned:
    """Plans an image. Raises BadInput also where Pathways' images are of another JAX or Python than it will have."""
    planned = plan_image(wanted_of(spec, config), registry, say, lock=lock)
    if config.pathways is not None:
        versions = planned.made.versions
        refuse_mismatch(config.pathways, versions.get("jax"), versions.get("python"))
    return planned


def _match_base(config: GkeTargetConfig, base: str, registry: Registry, say: Say) -> None:
    """The same for a folder on a base: it has the base's JAX and Python."""
    if config.pathways is not None:
        check_image(config.pathways, base, base, registry, say)


def wanted_of(spec: RunSpec, config: GkeTargetConfig) -> Wanted:
    """Returns the image that a run wants of its target."""
    if config.build is None:
        raise BadInput(f"target {spec.target_name} names neither image: nor build:")
    how = config.build
    return Wanted(
        _repository(how.repository), spec.source, config.platform, how.base or DEFAULT_BASE, python=how.python,
        orbax_classes=needs_orbax_classes(spec), builder=how.builder, smoke=how.smoke, trusted=True,
        proxy=config.encryption is not None,
    )  # fmt: skip
