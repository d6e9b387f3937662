"""Build: turns a source and a JAX version into a venv that workers run in, or finds the one that is there."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.git import fetch_tree, known_tree
from tasks.cloud.registry import pinned as pinned_image
from tasks.cloud.resolve import Lock, Request
from tasks.cloud.trees import prune_trees
from tasks.cloud.venvs import Venv, adopt_venv, all_venvs, make_venv, prune, read_venv
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.home import home, sources_folder
from tasks.config.spec import RunSpec, SourceSpec
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.target import LocalTargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.stages.build_container import build_container, folder_of, no_builder, plan_container
from tasks.stages.context import Run
from tasks.stages.pack import pack
from tasks.stages.recipes import (
    KEPT_UNUSED_S,
    LOCKED,
    RELEASED,
    built_before,
    code_and_recipe,
    pinned,
    recipe_of,
    request_of,
)
from tasks.stages.usercode import check_generators, foreign_generators, needs_orbax_classes
from tasks.targets.types import Image

_KEPT_VENVS = 10


@dataclass(frozen=True)
class BuildPlan:
    """Whether a build would make something new; `changed`: which inputs differ from the last of its kind, or why else.

    `key` None: not known yet, or no venv of ours. `jax`: its version, or in words where it comes from. `notes`: what is
    to be said besides, a line each, as `build` says it.
    """

    rebuild: bool
    key: str | None
    changed: tuple[str, ...]
    jax: str
    notes: tuple[str, ...] = ()
    makes: Literal["venv", "image"] = "venv"

    def __str__(self) -> str:
        if not self.rebuild:
            return f"nothing new: {f'{self.makes} {self.key} is there already' if self.key else self.jax}"
        return f"a new {self.makes}{f' {self.key}' if self.key else ''} ({'; '.join(self.changed)})"


def build(run: Run, *, lock: Lock | None = None) -> Image:
    """Makes sure that the venv is there, checks the suite's foreign classes in it, and writes the marker.

    A run that has the marker keeps what it was built with; where that was deleted since, the same commit is
    built again. Raises BadInput for a source, JAX version or class that does not exist, InfrastructureError
    when network or disk fail.
    """
    spec, venvs = run.spec, home() / "venvs"
    if (brought := run.target.image()) is not None:
        return _brought(run, brought)
    if isinstance(spec.target, GkeTargetConfig):
        if folder_of(spec.target) is not None:
            _refuse_sources(spec)
        return build_container(run, spec.target, lock or Lock())
    if (elsewhere := run.target.interpreter()) is not None:
        return pack(run, elsewhere, lock or Lock())
    if (last := built_before(run)) is not None:
        before, _ = last
        if adopt_venv(before.reference, venvs) is not None:
            return replace(before, reused=True)
        run.say(f"venv {before.reference} of this run is gone")
        spec = replace(spec, source=pinned(spec.source, before))
    about, recipe = code_and_recipe(spec.source, request_of(spec), lock or Lock(), run.say)
    venv, reused = make_venv(recipe, venvs, say=run.say, about=about)
    run.say(f"venv {venv.key} {_how(venv, reused)}: {_told(venv)}")
    if not reused:
        prune(venvs, keep=_KEPT_VENVS, say=run.say)
        prune_trees(sources_folder(), older_than_s=KEPT_UNUSED_S)
    check_generators(spec, venv.python)
    image = _image(venv, about, reused)
    run.mark("build", key=venv.key, inputs=dict(venv.inputs), image=asdict(image))
    return image


def _brought(run: Run, image: Image) -> Image:
    """Takes what the target brings: then there is nothing to build."""
    _refuse_sources(run.spec)
    if isinstance(run.spec.target, LocalTargetConfig):  # else it lies on hosts
        check_generators(run.spec, image.python)
    told = _told(image)
    run.say(f"{image.reference}: {told}" if told else f"image {image.reference}, as the target names it")
    run.mark("build", key=image.reference, inputs={}, image=asdict(image))
    return image


def _refuse_sources(spec: RunSpec) -> None:
    """Raises BadInput where a source is asked for and the target brings a Python: that is what is measured then."""
    if spec.source.repo is None and spec.source.jax_version == "locked":
        return
    asked = "--repo" if spec.source.repo is not None else "--jax-version"
    what, brought, instead = "a venv", "a Python", "take python: out of"
    if isinstance(spec.target, GkeTargetConfig):
        what = brought = "an image"
        instead = "write build: in place of image: in"
        if spec.target.build is not None:
            brought, instead = "the base of one", "take script_dir: out of"
    raise BadInput(
        f"{asked} asks for {what} of its own, but target {spec.target_name} names {brought} to be used",
        fix=f"{instead} the target file, or take {asked} back",
    )


def explain_build(spec: RunSpec, *, lock: Lock | None = None) -> BuildPlan:
    """Says whether `build` would make a new venv, and why. Makes nothing.

    Asks the remote what a branch is now, and the index what JAX is newest. Raises as `build` does.
    """
    if isinstance(spec.target, GkeTargetConfig):
        return _explain_container(spec, spec.target, lock or Lock())
    if isinstance(spec.target, SshTargetConfig | TpuVmTargetConfig) and spec.target.python is None:
        why = f"target {spec.target_name} names no python, so each host that has none yet makes it"
        return BuildPlan(True, None, (why,), spec.source.jax_version)
    if spec.target.python is not None:
        _refuse_sources(spec)
        return BuildPlan(False, None, (), f"what is installed in {spec.target.python}")
    tree = None
    if spec.source.repo is not None:
        tree = known_tree(spec.source, sources_folder())
        if tree is None:
            new = ("these source files have not been built here yet",)
            return BuildPlan(True, None, new, spec.source.jax_version)
    notes: list[str] = []
    recipe = recipe_of(request_of(spec), tree, lock or Lock(), notes.append)
    key, venvs = recipe.key(), home() / "venvs"
    there = read_venv(venvs / key) is not None
    changed = () if there else _changes(spec, recipe.inputs(), all_venvs(venvs))
    return BuildPlan(not there, key, changed, recipe.jax, tuple(notes))


def _explain_container(spec: RunSpec, config: GkeTargetConfig, lock: Lock) -> BuildPlan:
    """Says which image pods would get. A registry or package index that fails is a note: all else can still be told."""
    jax = spec.source.jax_version
    if config.build is None and config.image is None:
        why = f"target {spec.target_name} names no image: write image: or build: into it"
        return BuildPlan(True, None, (why,), jax, makes="image")
    notes: list[str] = []
    try:
        if config.image is not None or folder_of(config) is not None:
            _refuse_sources(spec)
        if config.image is not None:
            return BuildPlan(
                False, None, (), f"what is in {pinned_image(config.image).pinned()}", makes="image"
            )
        made = plan_container(spec, config, lock, notes.append)
    except InfrastructureError as error:
        notes.append(f"which image it would be is not known: {error}")
        if config.build is None:
            return BuildPlan(False, None, (), f"what is in {config.image}", tuple(notes), "image")
        where = f"into {config.build.repository}, unless it is there"
        return BuildPlan(True, None, (where,), jax, tuple(notes), "image")
    changed = () if made.reused else (f"into {made.repository}",)
    if not made.reused and folder_of(config) is None and (why := no_builder(config)):
        notes.append(f"on this machine it could not be: {why}")
    jax = made.versions.get("jax", jax)
    return BuildPlan(not made.reused, made.tag, changed, jax, tuple(notes), "image")


def check_source(spec: RunSpec, *, lock: Lock | None = None) -> None:
    """Raises BadInput for a branch, pull request, commit, package or JAX version that does not exist.

    Asks nobody when none was named. What it fetches stays in the cache, where `build` finds it.
    """
    target = spec.target
    given = isinstance(target, GkeTargetConfig) and (target.image or folder_of(target)) is not None
    if target.python is not None or given:
        _refuse_sources(spec)
    if spec.source.repo is not None or spec.source.jax_version != "locked":
        _look_up(spec.source, request_of(spec), lock or Lock())


@functools.lru_cache
def _look_up(source: SourceSpec, request: Request, lock: Lock) -> None:
    """Does so once in a process: the command asks before the flow that it then calls does."""
    tree = fetch_tree(source, sources_folder(), say=_quiet) if source.repo is not None else None
    recipe_of(request, tree, lock, _quiet)


def _changes(spec: RunSpec, inputs: Mapping[str, str], past: list[Venv]) -> tuple[str, ...]:
    """Compares with the last venv of the same kind (released or not, same extras), else with the last."""

    def kind(of: Mapping[str, str]) -> tuple[bool, str | None]:
        return of.get("source") == RELEASED, of.get("extras")

    last = next((venv for venv in past if kind(venv.inputs) == kind(inputs)), past[0] if past else None)
    if last is None:
        return ("nothing has been built here yet",)
    differing = [name for name in inputs if inputs[name] != last.inputs.get(name)]
    # Other packages follow from most changes: that is worth a word only where it is all there is to say.
    # So does the version of JAX where nobody asked for one: with extras it is looked up, not taken from the lock.
    follows = {"packages"}
    if "extras" in differing and spec.source.jax_version == LOCKED:
        follows.add("jax")
    told = [name for name in differing if name not in follows] or differing
    changed = tuple(f"{name}: {_short(last.inputs.get(name))} → {_short(inputs[name])}" for name in told)
    foreign = foreign_generators(spec)
    if "extras" in differing and foreign and needs_orbax_classes(spec):
        return (*changed, f"the suite's {foreign[0]} may need what Orbax's own benchmarks need")
    return changed


def _short(value: str | None) -> str:
    if not value:
        return "none"
    return value[:12] if len(value) == 64 else value


def _image(venv: Venv, about: Mapping[str, str], reused: bool) -> Image:
    return Image(
        kind="venv",
        reference=venv.key,
        python=venv.python,
        source=dict(about),
        versions=venv.versions,
        reused=reused,
    )


def _how(venv: Venv, reused: bool) -> str:
    return "is there already" if reused else f"built in {venv.seconds:.1f} s"


def _told(venv: Venv | Image) -> str:
    return ", ".join(f"{name} {version}" for name, version in venv.versions.items())


def _quiet(line: str) -> None:
    """Takes what nobody is there to hear."""
