"""Which image `slicebench workload create` runs: one that is there, by its digest, or a folder put on a base."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flows.said import say
from runtime.contract.errors import BadInput

if TYPE_CHECKING:
    from argparse import Namespace

    from tasks.config.gke_target import GkeTargetConfig
    from tasks.targets.kube_submission import Submission


def image_named(told: Namespace, config: GkeTargetConfig) -> str:
    """Returns the image that is there, or a word for one that is to be made. Raises BadInput for both, or neither."""
    making = [f"--{flag.replace('_', '-')}" for flag in ("script_dir", "base_image") if getattr(told, flag)]
    if told.docker_image and making:
        raise BadInput(
            f"--docker-image is taken as it is, and {' and '.join(making)} would make another one",
            fix="leave one of them out",
        )
    if config.pathways is not None and config.pathways.headless:
        if said := [*(["--docker-image"] if told.docker_image else []), *making]:
            raise BadInput("a headless Pathways takes no image", fix=f"leave {' and '.join(said)} out")
        return "none"
    if told.docker_image:
        from tasks.cloud.image_names import image_name

        image_name(told.docker_image)  # which refuses what is none
        return str(told.docker_image)
    if config.image and not making:
        return config.image
    if not (repository := _repository(told)):
        raise BadInput(
            "which image? --docker-image names one, or --repository says where one goes that is made of "
            f"{told.script_dir or 'the current folder'}",
            fix="say one of them; SLICEBENCH_REPOSITORY stands for the second",
        )
    from tasks.cloud.image_names import repository_name

    repository_name(repository, tagged="leave the tag to what is in the image")
    return "to-be-made"


def with_image(told: Namespace, config: GkeTargetConfig, asked: Submission) -> Submission:
    """Returns the same with the image by digest: looked up, or made of the folder. Last, for it writes."""
    pathways = config.pathways
    if asked.image == "none" or ("@sha256:" in asked.image and pathways is None):
        return asked
    from dataclasses import replace

    from tasks.cloud.registry import Registry
    from tasks.stages import image

    def match(reference: str, named: str) -> None:
        if pathways is not None:
            from tasks.targets.pathways_match import check_image

            check_image(pathways, reference, named, registry, say)

    with Registry() as registry:
        if asked.image != "to-be-made":
            named = asked.image
            found = named if "@sha256:" in named else image.given(named, registry).image
            match(found, named)
        else:
            from pathlib import Path

            base = told.base_image or image.DEFAULT_BASE
            match(base, base)  # whose JAX and Python it has
            folder, repository = Path(told.script_dir or "."), str(_repository(told))
            found = image.layer(folder, repository, registry, say, base=base).image
    return replace(asked, image=found)


def _repository(told: Namespace) -> str | None:
    return told.repository or os.environ.get("SLICEBENCH_REPOSITORY")
