"""Packs what workers elsewhere make their venv of: resolved for their Python, the code under test built here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from runtime.contract.errors import BadInput
from tasks.cloud.kits import Kit, make_kit, prune_kits, read_kit
from tasks.cloud.resolve import Lock, Request
from tasks.cloud.trees import prune_trees
from tasks.config.home import kits_folder, sources_folder
from tasks.stages.context import Run
from tasks.stages.recipes import KEPT_UNUSED_S, asked_for, built_before, code_and_recipe, pinned, request_of
from tasks.targets.types import Image, Interpreter


def pack(run: Run, elsewhere: Interpreter, lock: Lock) -> Image:
    """Makes sure that the kit for a Python elsewhere is there, and writes the marker of *build*.

    The image's `python` is for the target to fill in when it has made the venv; so are the versions that depend on
    the Python. A run that has the marker keeps what it was packed with. Raises as `build` does.
    """
    source = run.spec.source
    if (last := built_before(run)) is not None:
        before, inputs = last
        same_python = inputs.get("python") == elsewhere.identity
        if same_python and read_kit(before.reference, kits_folder()) is not None:
            return replace(before, reused=True)
        source = pinned(source, before)
    request = replace(request_of(run.spec), elsewhere=asked_for(elsewhere))
    _refuse_what_hosts_cannot_see(request)
    about, recipe = code_and_recipe(source, request, lock, run.say, elsewhere.identity)
    kit, reused = make_kit(recipe, kits_folder(), say=run.say)
    if not reused:
        prune_kits(kits_folder(), older_than_s=KEPT_UNUSED_S)
        prune_trees(sources_folder(), older_than_s=KEPT_UNUSED_S)
    image = _image(kit, elsewhere, about, reused)
    run.say(
        f"venv {kit.key} on the hosts: {', '.join(f'{name} {told}' for name, told in image.versions.items())}"
    )
    run.mark("build", key=kit.key, inputs=dict(recipe.inputs()), image=asdict(image))
    return image


def _image(kit: Kit, elsewhere: Interpreter, about: Mapping[str, str], reused: bool) -> Image:
    versions: dict[str, Any] = {**kit.versions, "python": elsewhere.version}
    return Image("venv", kit.key, "", dict(about), versions, reused)


def _refuse_what_hosts_cannot_see(request: Request) -> None:
    if request.jax_index is not None and "://" not in request.jax_index:
        raise BadInput(
            f"--jax-index {request.jax_index} is a folder of this machine, and hosts make their venvs themselves",
            fix="give a URL that the hosts reach",
        )
