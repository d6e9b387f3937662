"""`slicebench image build`: an image for workers in a registry, built with an engine or layered without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from flows.cli.said import Json, print_json, say, surely
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.config.spec import SourceSpec
    from tasks.stages.image import Made

_CODE, _HOW = Group("What is in it", sort_key=2), Group("How it is made", sort_key=3)
_FILES = Group("Or: a folder on a base, without an engine; or one that is there", sort_key=4)


def build(
    *,
    repository: Annotated[
        str | None,
        Parameter(
            env_var="SLICEBENCH_REPOSITORY",
            help="Where it goes: HOST/PATH, such as REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE",
        ),
    ] = None,
    tag: Annotated[str | None, Parameter(help="Its tag; else made of what is in it")] = None,
    repo: Annotated[
        str | None,
        Parameter(group=_CODE, help="Orbax to measure: repository URL (a fork, say) or local path"),
    ] = None,
    branch: Annotated[str | None, Parameter(group=_CODE, help="… at this branch")] = None,
    pr: Annotated[int | None, Parameter(group=_CODE, help="… at this pull request")] = None,
    commit: Annotated[str | None, Parameter(group=_CODE, help="… at this commit")] = None,
    jax_version: Annotated[str, Parameter(group=_CODE, help="locked, newest, nightly or x.y.z")] = "locked",
    jax_index: Annotated[str | None, Parameter(group=_CODE, help="Package index of JAX nightlies")] = None,
    device: Annotated[
        Literal["tpu", "gpu", "cpu"] | None, Parameter(group=_CODE, help="What it computes on; else tpu")
    ] = None,
    orbax_classes: Annotated[
        bool,
        Parameter(
            group=_CODE,
            negative="",
            show_default=False,
            help="TensorFlow and clu too, for Orbax's own benchmarks",
        ),
    ] = False,
    base_image: Annotated[
        str | None, Parameter(help="Image to start from; else Python's slim one", group=_HOW)
    ] = None,
    python: Annotated[
        str | None, Parameter(help="Version of its Python, where the base does not say", group=_HOW)
    ] = None,
    builder: Annotated[
        Literal["docker", "buildah", "podman"] | None,
        Parameter(group=_HOW, help="Engine; else the first that works"),
    ] = None,
    no_cache: Annotated[
        bool, Parameter(group=_HOW, negative="", show_default=False, help="Use nothing that was built before")
    ] = False,
    force: Annotated[
        bool,
        Parameter(group=_HOW, negative="", show_default=False, help="Write over a tag that is another image"),
    ] = False,
    smoke: Annotated[
        bool, Parameter(group=_HOW, negative="", show_default=False, help="Try it out before it is pushed")
    ] = False,
    script_dir: Annotated[
        str | None,
        Parameter(group=_FILES, help="Folder whose files go to /app, but for what .dockerignore names"),
    ] = None,
    docker_image: Annotated[
        str | None,
        Parameter(group=_FILES, help="Image that is there: its tag becomes a digest, nothing is made"),
    ] = None,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Make an image for workers and push it; print repository@digest, which is what pods are given."""
    show_calls(verbose)
    from flows.signals import interrupting
    from tasks.cloud.registry import Registry
    from tasks.stages import image

    source = {"repo": repo, "branch": branch, "pr": pr, "commit": commit}
    engine = {
        **source, "jax_version": jax_version != "locked", "jax_index": jax_index, "device": device,
        "orbax_classes": orbax_classes, "python": python, "builder": builder, "no_cache": no_cache, "smoke": smoke,
    }  # fmt: skip
    image.one_way(docker_image, script_dir, base_image)
    if docker_image is not None:
        _refuse("--docker-image is taken as it is", {**engine, "tag": tag, "force": force})
        with Registry() as registry:
            _show(image.given(docker_image, registry), json)
        return ExitCode.DONE
    if repository is None:
        raise BadInput(
            "--repository is missing", fix="say where the image goes: HOST/PATH, or SLICEBENCH_REPOSITORY"
        )
    base = base_image or image.DEFAULT_BASE
    with interrupting(say), Registry() as registry:
        if script_dir is not None:
            _refuse("--script-dir puts files on a base as it is", engine)
            made = image.layer(Path(script_dir), repository, registry, say, base=base, tag=tag, force=force)
        else:
            from tasks.stages.image_build import Wanted
            from tasks.stages.image_build import build as make

            wanted = Wanted(
                repository, _source({**source, "jax_version": jax_version, "jax_index": jax_index}),
                device or "tpu", base, tag, python, orbax_classes, builder, no_cache, force, smoke,
            )  # fmt: skip
            made = make(wanted, registry, say)
    with surely(f"made: {made.image}"):
        _show(made, json)
    return ExitCode.DONE


def _refuse(why: str, flags: Mapping[str, object]) -> None:
    """Raises BadInput for flags that would have no effect."""
    given = [f"--{name.replace('_', '-')}" for name, value in flags.items() if value]
    if given:
        raise BadInput(f"{why}, and {', '.join(given)} would have no effect", fix="leave one of them out")


def _source(fields: Mapping[str, object]) -> SourceSpec:
    from tasks.config.as_flags import Flags
    from tasks.config.findings import checked
    from tasks.config.request import RunRequest
    from tasks.config.source import resolve_source

    return resolve_source(checked(RunRequest, {"suite": "-", **fields}, Flags()))


def _show(made: Made, json: bool) -> None:
    if json:
        print_json(asdict(made))
    else:
        print(made.image)
