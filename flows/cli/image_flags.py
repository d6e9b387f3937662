"""Flags of `slicebench image build`, in the groups in which --help shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from flows.cli.flag_groups import flattened

if TYPE_CHECKING:
    from tasks.config.spec import SourceSpec


@flattened("What is in it", 2)
@dataclass(frozen=True)
class Code:
    """What it is for, whose code is measured, and with what it computes."""

    kind: Annotated[
        Literal["benchmark", "training", "proxy"],
        Parameter(
            show_default=True, help="Workers of runs; python -m runtime.training; the Cloud Storage proxy"
        ),
    ] = "benchmark"

    repo: Annotated[
        str | None, Parameter(help="Orbax to measure: repository URL (a fork, say) or local path")
    ] = None
    branch: Annotated[str | None, Parameter(help="… at this branch")] = None
    pr: Annotated[int | None, Parameter(help="… at this pull request")] = None
    commit: Annotated[str | None, Parameter(help="… at this commit")] = None
    jax_version: Annotated[str, Parameter(show_default=True, help="locked, newest, nightly or x.y.z")] = (
        "locked"
    )
    jax_index: Annotated[str | None, Parameter(help="Package index of JAX nightlies")] = None
    device: Annotated[
        Literal["tpu", "gpu", "cpu"] | None, Parameter(help="What it computes on; default: tpu")
    ] = None
    orbax_classes: Annotated[bool, Parameter(help="TensorFlow and clu too, for Orbax's own benchmarks")] = (
        False
    )

    def given(self) -> Mapping[str, object]:
        """Returns what was said, by flag; the rest is false."""
        return {
            **vars(self),
            "kind": self.kind != "benchmark",
            "jax_version": self.jax_version != "locked",
        }

    def source(self) -> SourceSpec:
        """Returns which code that is. Raises BadInput in the flags' own spelling."""
        from tasks.config.as_flags import Flags
        from tasks.config.findings import checked
        from tasks.config.request import RunRequest
        from tasks.config.source import resolve_source

        names = ("repo", "branch", "pr", "commit", "jax_version", "jax_index")
        fields = {name: getattr(self, name) for name in names}
        return resolve_source(checked(RunRequest, {"suite": "-", **fields}, Flags()))


@flattened("How it is made", 3)
@dataclass(frozen=True)
class How:
    """On what it is built, by which engine, and how carefully."""

    base_image: Annotated[str | None, Parameter(help="Image to start from; default: a slim Python image")] = (
        None
    )
    python: Annotated[str | None, Parameter(help="Version of its Python, if the base image does not say")] = (
        None
    )
    builder: Annotated[
        Literal["docker", "buildah", "podman"] | None,
        Parameter(help="Container engine; default: the first that works"),
    ] = None
    no_cache: Annotated[bool, Parameter(help="Use no cached layers")] = False
    force: Annotated[bool, Parameter(help="Overwrite a tag that names another image")] = False
    smoke: Annotated[bool, Parameter(help="Try it out before it is pushed")] = False

    def of_an_engine(self) -> Mapping[str, object]:
        """Returns what was said of how an engine builds, by flag; the rest is false."""
        return {name: getattr(self, name) for name in ("python", "builder", "no_cache", "smoke")}


@flattened("Or: a folder on a base, without an engine; or one that is there", 4)
@dataclass(frozen=True)
class Files:
    """What is taken in the place of something that is built."""

    script_dir: Annotated[
        str | None, Parameter(help="Folder whose files go to /app, but for what .dockerignore names")
    ] = None
    docker_image: Annotated[
        str | None, Parameter(help="Image that is there: its tag becomes a digest, nothing is made")
    ] = None
