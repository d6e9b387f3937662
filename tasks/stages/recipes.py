"""What a run's packages must be: from its spec to a recipe, for a venv here or a kit for hosts."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime.contract.record import record_of
from tasks.cloud.git import fetch_tree
from tasks.cloud.resolve import Lock, Request, resolve
from tasks.cloud.trees import WORKING_TREE, Tree, scratch_folder
from tasks.cloud.venvs import Recipe, python_identity
from tasks.config.home import sources_folder
from tasks.config.spec import RunSpec, SourceSpec
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.stages.context import Run
from tasks.stages.usercode import needs_orbax_classes
from tasks.targets.tpu_python import promised
from tasks.targets.types import Image, Interpreter

RELEASED = "released"
LOCKED = "locked"
KEPT_UNUSED_S = 30 * 86400.0
"""How long sources and kits that nothing asks for are kept."""

_GLIBC_MINORS = (28, *range(31, 41))
"""Versions 2.X of glibc that uv knows as platforms."""


def request_of(spec: RunSpec) -> Request:
    """Returns what the packages of a run must be good for; for which Python elsewhere, where that is known by now."""
    elsewhere = None
    if isinstance(spec.target, TpuVmTargetConfig) and spec.target.python is None:
        elsewhere = asked_for(promised(spec.target))
    return Request(
        jax=spec.source.jax_version,
        jax_index=spec.source.jax_index,
        gpu=spec.target.platform == "gpu",
        tpu=spec.target.platform == "tpu",
        extras=(
            *(("orbax-classes",) if needs_orbax_classes(spec) else ()),
            *(("proxy",) if spec.target.encryption is not None else ()),
        ),
        elsewhere=elsewhere,
    )


def code_and_recipe(
    source: SourceSpec,
    request: Request,
    lock: Lock,
    say: Callable[[str], None],
    identity: str | None = None,
) -> tuple[dict[str, Any], Recipe]:
    """Fetches the code under test and resolves what it needs.

    Returns what is to be recorded of the code, and the recipe. `identity`: of the Python elsewhere for which it is.
    Raises as `fetch_tree` and `resolve` do.
    """
    tree = fetch_tree(source, sources_folder(), say=say) if source.repo is not None else None
    about = tree.record() if tree else {"ref": RELEASED}
    return about, recipe_of(request, tree, lock, say, identity)


def recipe_of(
    request: Request, tree: Tree | None, lock: Lock, say: Callable[[str], None], identity: str | None = None
) -> Recipe:
    """Resolves a request; `identity` is that of the Python elsewhere for which it is. Raises as `resolve` does."""
    with _workspace() as work:
        if tree is not None:
            # From a copy: a build backend asked for its dependencies may write into the tree.
            request = replace(request, tree=work / "source")
            shutil.copytree(tree.folder, work / "source", symlinks=True)
        resolved = resolve(request, lock, sys.executable, work, say=say)
    return Recipe(
        requirements=resolved.text,
        jax=resolved.jax,
        extras=request.extras + (("gpu",) if request.gpu else ()) + (("tpu",) if request.tpu else ()),
        jax_index=request.jax_index,
        source=tree.folder if tree else None,
        digest=tree.digest if tree else RELEASED,
        python=identity or python_identity(),
    )


def asked_for(elsewhere: Interpreter) -> tuple[str, str] | None:
    """Returns version and platform as uv knows them; None where they are those of this machine."""
    if elsewhere.identity == python_identity():
        return None
    return elsewhere.version, _platform(elsewhere)


def _platform(elsewhere: Interpreter) -> str:
    """Returns the platform as uv knows it. Its plain one stands for an old glibc, for which libtpu is very old too."""
    machine = elsewhere.platform.removeprefix("linux-")
    told = re.search(r"glibc-2\.(\d+)", elsewhere.identity)
    known = [minor for minor in _GLIBC_MINORS if told and minor <= int(told[1])]
    return f"{machine}-manylinux_2_{max(known)}" if known else f"{machine}-unknown-linux-gnu"


@contextmanager
def _workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder, scratch_folder(Path(folder)) as work:
        yield work


def built_before(run: Run) -> tuple[Image, Mapping[str, str]] | None:
    """Returns what *build* of this run made when it finished, and of which inputs; None when it has not.

    Raises InfrastructureError, with the fix, where its marker is damaged.
    """
    marker = run.marker("build")
    if marker is None:
        return None
    with run.reading("build"):
        return record_of(Image, marker["outputs"]["image"]), dict(marker["outputs"]["inputs"])


def pinned(source: SourceSpec, before: Image) -> SourceSpec:
    """Returns the source with what a branch and a JAX version meant when the run was built first."""
    if before.source.get("commit") and before.source.get("ref") != WORKING_TREE:
        source = replace(source, branch=None, pr=None, commit=before.source["commit"])
    if source.jax_version != LOCKED:
        source = replace(source, jax_version=before.versions["jax"])
    return source
