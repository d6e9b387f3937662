"""Build where containers run: the image of a run's source in the target's repository, made there if it is missing."""

from __future__ import annotations

from dataclasses import asdict, replace

from runtime.contract.errors import BadInput
from tasks.cloud.image_names import image_name
from tasks.cloud.registry import Registry
from tasks.cloud.resolve import Lock
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.spec import RunSpec
from tasks.stages.context import Run, Say
from tasks.stages.image import DEFAULT_BASE
from tasks.stages.image_build import Planned, Wanted
from tasks.stages.image_build import build as build_image
from tasks.stages.image_build import plan as plan_image
from tasks.stages.recipes import built_before, pinned
from tasks.stages.usercode import needs_orbax_classes
from tasks.targets.types import Image


def build_container(run: Run, config: GkeTargetConfig, lock: Lock) -> Image:
    """Makes sure that the image is in its registry, and writes the marker, with tag and digest.

    A run that has the marker keeps its image; where that was deleted since, the same commit is built again. Who dies
    while it is built or pushed leaves no tag, or the one that the next finds: a tag is made of what is in the image.
    Raises BadInput and InfrastructureError as `image_build.build`.
    """
    spec = run.spec
    with Registry() as registry:
        if (last := built_before(run)) is not None:
            before, _ = last
            if registry.find(image_name(before.reference)) is not None:
                return replace(before, reused=True)
            run.say(f"image {before.reference} of this run is gone")
            spec = replace(spec, source=pinned(spec.source, before))
        made = build_image(wanted_of(spec, config), registry, run.say, lock=lock)
    source = {**made.source, "image": f"{image_name(made.image).repository}:{made.tag}", "base": made.base}
    image = Image("container", made.image, "python", source, dict(made.versions), made.reused)
    run.say(f"image {made.image}, {made.tag}: {'is there already' if made.reused else 'built and pushed'}")
    run.mark("build", key=made.tag, inputs={}, image=asdict(image))
    return image


def plan_container(spec: RunSpec, config: GkeTargetConfig, lock: Lock, say: Say) -> Planned:
    """Says which image `build_container` would make, and whether it is there. Makes nothing. Raises as it."""
    with Registry() as registry:
        return plan_image(wanted_of(spec, config), registry, say, lock=lock)


def wanted_of(spec: RunSpec, config: GkeTargetConfig) -> Wanted:
    """Returns the image that a run wants of its target."""
    if config.build is None:
        raise BadInput(f"target {spec.target_name} names neither image: nor build:")
    how = config.build
    return Wanted(
        how.repository, spec.source, config.platform, how.base or DEFAULT_BASE, python=how.python,
        orbax_classes=needs_orbax_classes(spec), builder=how.builder, smoke=how.smoke, trusted=True,
    )  # fmt: skip
