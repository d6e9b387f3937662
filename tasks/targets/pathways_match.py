"""Pathways' images against the program's: one JAX in all of them, and one Python where workers run Python too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from tasks.cloud.image_names import image_name
from tasks.cloud.image_versions import said_by

if TYPE_CHECKING:
    from tasks.cloud.registry import Registry
    from tasks.config.gke_parts import Pathways

_FIX = "take images of the program's JAX and Python, or a program of theirs"


def refuse_mismatch(pathways: Pathways, jax: str | None, python: str | None) -> None:
    """Raises BadInput where Pathways' images are of another JAX or Python; None: not known of the program."""
    minor = re.match(r"\d+\.\d+", python or "")
    if wrong := pathways.mismatches(jax, minor[0] if minor else None):
        raise BadInput([Problem("error", None, told, fix=_FIX) for told in wrong])


def check_image(
    pathways: Pathways, image: str, named: str, registry: Registry, say: Callable[[str], None]
) -> None:
    """Compares with what the program's image says of itself; `named` is how somebody called it, perhaps by its JAX.

    Raises BadInput. What a registry does not tell is said to be not compared.
    """
    from tasks.config.gke_parts import jax_of

    try:
        told = said_by(registry.config(registry.image(image_name(image))))
    except (BadInput, InfrastructureError) as error:
        say(f"{named} is not compared with the images of Pathways: {error}")
        return
    jax = told.jax or jax_of(named)
    refuse_mismatch(pathways, jax, told.python)
    unknown = [what for what, value in (("JAX", jax), ("Python", told.python)) if value is None]
    if unknown:
        say(f"{named} does not say its {' nor its '.join(unknown)}: not compared with the images of Pathways")
