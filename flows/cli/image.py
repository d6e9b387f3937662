"""`slicebench image build`: an image for workers in a registry, built with an engine or layered without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.image_flags import Code, Files, How
from flows.cli.said import Json, print_json, say, surely
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.cloud.registry import Registry
    from tasks.stages.image import Made

_CODE, _HOW, _FILES = Code(), How(), Files()


def build(
    *,
    repository: Annotated[
        str | None,
        Parameter(
            env_var="SLICEBENCH_REPOSITORY",
            help="Where it goes: HOST/PATH, such as REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE",
        ),
    ] = None,
    tag: Annotated[str | None, Parameter(help="Its tag; default: made from its content")] = None,
    code: Code = _CODE,
    how: How = _HOW,
    files: Files = _FILES,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Make an image for workers and push it; print repository@digest, which is what pods are given."""
    show_calls(verbose)
    from flows.signals import interrupting
    from tasks.cloud.registry import Registry
    from tasks.stages import image

    image.one_way(files.docker_image, files.script_dir, how.base_image)
    engine = {**code.given(), **how.of_an_engine()}
    if files.docker_image is not None:
        _refuse("--docker-image is taken as it is", {**engine, "tag": tag, "force": how.force})
        with Registry() as registry:
            _show(image.given(files.docker_image, registry), json)
        return ExitCode.DONE
    if repository is None:
        raise BadInput(
            "--repository is missing", fix="say where the image goes: HOST/PATH, or SLICEBENCH_REPOSITORY"
        )
    if files.script_dir is not None:
        _refuse("--script-dir puts files on a base as it is", engine)
    _refuse_for_kind(code)
    base = how.base_image or image.DEFAULT_BASE
    with interrupting(say), Registry() as registry:
        if files.script_dir is not None:
            folder = Path(files.script_dir)
            made = image.layer(folder, repository, registry, say, base=base, tag=tag, force=how.force)
        else:
            made = _built(repository, tag, code, how, base, registry)
    with surely(f"made: {made.image}"):
        _show(made, json)
    return ExitCode.DONE


def _built(repository: str, tag: str | None, code: Code, how: How, base: str, registry: Registry) -> Made:
    from tasks.stages.image_build import Wanted
    from tasks.stages.image_build import build as make

    wanted = Wanted(
        repository, code.source(), code.device or "tpu", base, tag, how.python, code.orbax_classes, how.builder,
        how.no_cache, how.force, how.smoke, kind=code.kind,
    )  # fmt: skip
    return make(wanted, registry, say)


def _refuse_for_kind(code: Code) -> None:
    given = {name: value for name, value in code.given().items() if name != "kind"}
    if code.kind == "proxy":
        _refuse("--kind proxy has neither JAX nor Orbax in it", given)
    elif code.kind == "training":
        _refuse("--kind training has no benchmarks in it", {"orbax_classes": code.orbax_classes})


def _refuse(why: str, flags: Mapping[str, object]) -> None:
    """Raises BadInput for flags that would have no effect."""
    given = [f"--{name.replace('_', '-')}" for name, value in flags.items() if value]
    if given:
        raise BadInput(f"{why}, and {', '.join(given)} would have no effect", fix="leave one of them out")


def _show(made: Made, json: bool) -> None:
    if json:
        print_json(asdict(made))
    else:
        print(made.image)
