"""Images built with an engine: Python, JAX, Orbax or the code under test, and the runtime; keyed by what is in them."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud import image_builders
from tasks.cloud.disk import on_disk
from tasks.cloud.image_builders import Builder, Job, build_image, choose_builder, push_image, run_in
from tasks.cloud.image_names import ImageName, image_name, made_tag
from tasks.cloud.image_smoke import smoke_command, smoke_failures, smoke_steps
from tasks.cloud.image_versions import JAX_LABEL, said_by
from tasks.cloud.kits import make_kit, prune_kits, shown_versions
from tasks.cloud.registry import Registry
from tasks.cloud.registry_login import engine_logins
from tasks.cloud.resolve import Lock, Request
from tasks.cloud.trees import WORKING_TREE, scratch_folder
from tasks.cloud.venvs import Recipe
from tasks.config.home import images_folder, kits_folder
from tasks.config.spec import SourceSpec
from tasks.stages.image import DEFAULT_BASE, KEY_LABEL, Made, taken, target_of
from tasks.stages.image_context import fill_context, inputs_of, pip_settings
from tasks.stages.image_kinds import KINDS, Kind, imports_of
from tasks.stages.recipes import RELEASED, asked_for, code_and_recipe, recipe_of
from tasks.targets.types import Interpreter

Say = Callable[[str], None]

_PYTHON = re.compile(r"3\.\d+(\.\d+)?")
_LEFT_S = 86400.0
"""How long what a killed build was made from stays: no build takes that long."""

_LIBC = "glibc-2.36"
"""What the base is taken to have: Debian 12's. Packages that need a newer one are not chosen."""


@dataclass(frozen=True)
class Wanted:
    """An image to be built. `tag` None: made from what goes into it. `python` None: as the base says of itself.

    `fresh`: nothing that was built before is used. `force`: the tag is written over whatever it stands for.
    `trusted`: what is there already is not tried out again; then no engine is needed for it. `proxy`: with what the
    encrypting proxy needs. `kind`: what it is for; one that computes nothing has neither source nor device.
    """

    repository: str
    source: SourceSpec
    device: Literal["tpu", "gpu", "cpu"] = "tpu"
    base: str = DEFAULT_BASE
    tag: str | None = None
    python: str | None = None
    orbax_classes: bool = False
    builder: image_builders.Name | None = None
    fresh: bool = False
    force: bool = False
    smoke: bool = False
    trusted: bool = False
    proxy: bool = False
    kind: Kind = "benchmark"


@dataclass(frozen=True)
class Planned:
    """What is to be made: where it goes, by which tag, of what; and the image that is there already, if one is.

    `made` is what `build` returns of it, but for the digest.
    """

    wanted: Wanted
    target: ImageName
    key: str
    base: ImageName
    recipe: Recipe
    made: Made
    there: ImageName | None


def plan(wanted: Wanted, registry: Registry, say: Say, *, lock: Lock | None = None) -> Planned:
    """Says what `build` would make, and makes nothing; sources that it fetches stay in the cache.

    Raises BadInput for what does not exist, or a tag that is another image; InfrastructureError when registry or
    package index fail.
    """
    place = target_of(wanted.repository, wanted.tag)
    _check_index(wanted.source.jax_index)
    _check_python(wanted.python)
    base = registry.image(image_name(wanted.base))
    python = wanted.python or _said_python(registry.config(base), wanted.base)
    about, recipe = _packages(wanted, python, lock or Lock(), say)
    key = _key(KINDS[wanted.kind].dockerfile(), recipe.key(), base.digest, fresh=wanted.fresh)
    versions = shown_versions(f"\n{recipe.requirements}")
    device = wanted.device if KINDS[wanted.kind].computes else ""
    tag = made_tag(_named(wanted.kind, about), device, versions.get("jax", ""), key)
    target = place if wanted.tag else place.tagged(tag)
    made = Made(
        str(target), str(target.tag), base.name.pinned(), device,
        source=about, versions={**versions, "python": python},
    )  # fmt: skip
    there = taken(registry, target, key, wanted.force)
    if there is not None:
        made = replace(made, image=there.pinned(), reused=True)
    return Planned(wanted, target, key, base.name, recipe, made, there)


def build(wanted: Wanted, registry: Registry, say: Say, *, lock: Lock | None = None) -> Made:
    """Makes sure that an image is in its registry, and returns it. Everything is checked before anything is made.

    What was built before of the same inputs is found by its tag, and not built again. Raises BadInput for what does
    not exist, or a tag that is another image; InfrastructureError when engine, registry or package index fail.
    """
    return carry_out(plan(wanted, registry, say, lock=lock), registry, say)


def carry_out(planned: Planned, registry: Registry, say: Say) -> Made:
    """Makes what is planned. Raises as `build`."""
    wanted, target, made = planned.wanted, planned.target, planned.made
    if planned.there is not None:
        say(f"{target} is there already")
        if wanted.trusted or not wanted.smoke:
            return made
    name = choose_builder(wanted.builder)
    with scratch_folder(images_folder()) as work, engine_logins([planned.base, target], name) as logins:
        builder = Builder(name, logins)
        if planned.there is not None:
            _smoke(builder, planned.there, wanted, work, say)
            return made
        prune_kits(images_folder(), older_than_s=_LEFT_S)
        job = _job(planned, work, say)
        _build(builder, job, say)
        if wanted.smoke:
            _smoke(builder, job.target, wanted, work, say)
        if (there := taken(registry, target, planned.key, wanted.force)) is not None:
            say(f"{target} was pushed by somebody else meanwhile: it stays")
            return replace(made, image=there.pinned(), reused=True)
        say(f"pushing {target}")
        digest = push_image(builder, target, work)
    if registry.find(target.at(digest)) != digest:
        raise InfrastructureError(f"{name} pushed {target} as {digest}, but the registry does not have that")
    return replace(made, image=target.at(digest).pinned(), builder=name)


def ref_of(about: Mapping[str, str]) -> str:
    """Returns what of a source stands in a tag: branch, pr-N, tag, commit, or the folder's name."""
    ref = about.get("ref", RELEASED)
    if ref == WORKING_TREE:
        return Path(about["repo"]).name
    if pull := re.fullmatch(r"refs/pull/(\d+)/head", ref):
        return f"pr-{pull[1]}"
    if re.fullmatch(r"[0-9a-f]{7,40}", ref):
        return ref[:12]
    return re.sub(r"^refs/(heads|tags)/", "", ref)


def _named(kind: Kind, about: Mapping[str, str]) -> str:
    """Returns what a tag begins with."""
    if not KINDS[kind].computes:
        return kind
    return ref_of(about) if kind == "benchmark" else f"{kind}-{ref_of(about)}"


def _build(builder: Builder, job: Job, say: Say) -> None:
    say(f"building {job.target} with {builder.name}, on {job.base.pinned()}")
    began = time.monotonic()
    build_image(builder, job)
    say(f"built in {time.monotonic() - began:.0f} s")


def _check_index(index: str | None) -> None:
    if index is not None and not index.startswith("https://"):
        raise BadInput(f"--jax-index {index} cannot be seen by a build", fix="give an https:// URL")


def _packages(wanted: Wanted, python: str, lock: Lock, say: Say) -> tuple[dict[str, Any], Recipe]:
    interpreter = Interpreter(python, "linux-x86_64", f"CPython {python} linux-x86_64 {_LIBC}")
    kind = KINDS[wanted.kind]
    request = Request(
        jax=wanted.source.jax_version,
        jax_index=wanted.source.jax_index,
        gpu=wanted.device == "gpu" and kind.computes,
        tpu=wanted.device == "tpu" and kind.computes,
        extras=(
            *kind.extras,
            *(("orbax-classes",) if wanted.orbax_classes else ()),
            *(("proxy",) if wanted.proxy else ()),
        ),
        computes=kind.computes,
        elsewhere=asked_for(interpreter),
    )
    if not kind.computes:
        return {}, recipe_of(request, None, lock, say, interpreter.identity)
    return code_and_recipe(wanted.source, request, lock, say, interpreter.identity)


def _key(dockerfile: str, kit: str, base: str, *, fresh: bool) -> str:
    inputs = inputs_of(dockerfile, kit, base)
    if fresh:  # packages of the system may be newer: that is another image, and gets a tag of its own
        inputs["fresh"] = uuid.uuid4().hex
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _check_python(python: str | None) -> None:
    if python is not None and not _PYTHON.fullmatch(python):
        raise BadInput(f"--python {python!r} is not a version of Python", fix="write it like 3.12 or 3.12.1")


def _said_python(config: Mapping[str, Any], base: str) -> str:
    """Returns the version of Python that a base has, as the official images say it."""
    if (python := said_by(config).python) is not None:
        return python
    raise BadInput(
        f"{base} does not say which Python it has (PYTHON_VERSION)", fix="add --python 3.12, or what it has"
    )


def _job(planned: Planned, work: Path, say: Say) -> Job:
    """Returns what the engine is told; what it is told to build from is in a folder in `work` then."""
    context, made = work / "context", planned.made
    kit, _ = make_kit(planned.recipe, kits_folder(), say=say)
    with on_disk("write what the image is built from", "set SLICEBENCH_HOME to a folder on another disk"):
        context.mkdir()
        fill_context(KINDS[planned.wanted.kind].dockerfile(), kit, context)
        pip = _secret(work)
    labels = {KEY_LABEL: planned.key, JAX_LABEL: made.versions.get("jax", ""), **_labels(made.source)}
    return Job(context, planned.base, planned.target, labels, planned.wanted.fresh, pip)


def _smoke(builder: Builder, image: ImageName, wanted: Wanted, work: Path, say: Say) -> None:
    """Tries an image out. Raises InfrastructureError, naming what does not work in it."""
    output = work / "smoke"
    output.mkdir(exist_ok=True)
    name = f"slicebench-{uuid.uuid4().hex[:12]}"
    command = smoke_command(image_builders.OUTPUT, imports=imports_of(wanted.kind, proxy=wanted.proxy))
    done = run_in(builder, image, command, output, name)
    if done.code != 0 or not list(output.iterdir()):
        told = smoke_failures(done.text) or done.errors.strip()[-500:] or "it wrote nothing"
        raise InfrastructureError(f"{image} does not work: {told}")
    say(f"{image} works: {', '.join(str(step['step']) for step in smoke_steps(done.text))}")


def _labels(about: Mapping[str, str]) -> dict[str, str]:
    told = {"source": about.get("repo", ""), "revision": about.get("commit", "")}
    return {f"org.opencontainers.image.{name}": value for name, value in told.items() if value}


def _secret(work: Path) -> Path | None:
    settings = pip_settings()
    if settings is None:
        return None
    file = work / "pip.conf"
    file.touch(mode=0o600)
    file.write_text(settings)
    return file
