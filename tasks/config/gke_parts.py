"""Parts of a GKE target that stand beside the workers: RAM disks, dumps, metrics, TensorBoard, Pathways."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from tasks.config import patterns, size

_FORBID = ConfigDict(extra="forbid", frozen=True)
_TAG_JAX = re.compile(r"jax[_-](\d+\.\d+(?:\.\d+)?)")
_TAG_PYTHON = re.compile(r"python[_-](\d+\.\d+)")

_Bucket = Annotated[str, Field(pattern=patterns.BUCKET)]


_OF_THE_IMAGE = (
    "app", "bin", "dev", "etc", "lib", "lib32", "lib64", "opt/slicebench", "proc", "sbin", "sys", "usr",
)  # fmt: skip


def _not_over_the_image(path: str) -> str:
    """Refuses a folder that would hide what programs in the container need."""
    whole = f"{path.strip('/')}/"
    for folder in _OF_THE_IMAGE:
        if whole.startswith(f"{folder}/") or f"{folder}/".startswith(whole):
            raise ValueError(f"it would hide the image's /{folder}: take a folder of its own, such as /local")
    return path


class RamDisk(BaseModel):
    """A folder in the memory of each host: the workers' local directory."""

    model_config = _FORBID

    directory: str = Field("/local", description="Where workers see it")
    by: Literal["gke", "multi_tier", "memory"] = Field(
        "gke",
        description="Who keeps it: GKE's RAM disk of the cluster, its multi-tier checkpointing (which copies to a "
        "bucket), or, on any cluster, the memory of the pod",
    )
    size: str | None = Field(
        None,
        pattern=size.PATTERN,
        description="For by: memory: its size; the others' is a property of the cluster",
    )

    @field_validator("directory")
    @classmethod
    def _absolute(cls, path: str) -> str:
        if not path.startswith("/"):
            path = f"/{path}"  # as xpk takes it
        if path == "/" or ":" in path or ".." in path.split("/"):
            raise ValueError("it must be a folder of its own in the container, such as /local")
        return _not_over_the_image(path)

    @model_validator(mode="after")
    def _sized(self) -> RamDisk:
        if (self.by == "memory") != (self.size is not None):
            raise ValueError("by: memory and size: belong together")
        return self


class Shared(BaseModel):
    """A folder that all pods, and the machine that runs start from, see at the same path: outputs may lie there."""

    model_config = _FORBID

    directory: Annotated[str, AfterValidator(_not_over_the_image)] = Field(
        pattern=patterns.FOLDER_TO_MOUNT, description="Where it is, here and in every pod"
    )
    claim: str | None = Field(
        None,
        pattern=patterns.OBJECT,
        max_length=patterns.LONGEST_OBJECT,
        description="PersistentVolumeClaim of the namespace that it is on",
    )
    nfs: str | None = Field(None, pattern=patterns.NFS, description="In place of a claim: SERVER:/PATH")
    host_path: str | None = Field(
        None,
        pattern=patterns.FOLDER,
        description="In place of both: a folder that all nodes have, as those of kind can",
    )

    @model_validator(mode="after")
    def _one(self) -> Shared:
        if sum(each is not None for each in (self.claim, self.nfs, self.host_path)) != 1:
            raise ValueError("say by one of claim:, nfs: and host_path: what it is on")
        return self

    def holds(self, output: str) -> bool:
        """Whether an output lies in it."""
        return f"{output.rstrip('/')}/".startswith(f"{self.directory.rstrip('/')}/")


class ImageBuild(BaseModel):
    """An image that the stage *build* makes, unless it is there: of the run's source, JAX and Orbax by an engine, or of
    a folder on a base by the registry alone.
    """

    model_config = _FORBID

    repository: str = Field(
        pattern=patterns.REPOSITORY, description="Where it goes: HOST/PATH, without a tag"
    )
    base: str | None = Field(
        None, pattern=patterns.IMAGE, description="Image that it starts from; not given: Python's slim one"
    )
    python: str | None = Field(
        None, pattern=patterns.PYTHON, description="Version of the base's Python, where it does not say"
    )
    builder: Literal["docker", "buildah", "podman"] | None = Field(
        None, description="Engine; not given: the first that works on the machine that runs the pipeline"
    )
    smoke: bool = Field(True, description="Whether it is tried out before it is pushed")
    script_dir: str | None = Field(
        None,
        min_length=1,
        description="Folder whose files are put on the base, without an engine: workers find them before its packages. "
        "The base is an image that workers can run, as slicebench image build makes them",
    )

    @model_validator(mode="after")
    def _one_way(self) -> ImageBuild:
        if self.script_dir is None:
            return self
        if self.base is None:
            raise ValueError("script_dir: puts files on an image that workers can run: name it, with base:")
        if engine := sorted(self.model_fields_set & {"builder", "python", "smoke"}):
            raise ValueError(
                f"script_dir: needs no engine, and {engine[0]}: is for one; leave one of them out"
            )
        return self


class DebugDump(BaseModel):
    """XLA dumps: written beside the worker, and copied to a bucket by a container that outlives its crash."""

    model_config = _FORBID

    to: _Bucket = Field(description="Folder of a bucket; each pod has one of its name in it")
    image: str = Field(
        "gcr.io/google.com/cloudsdktool/google-cloud-cli:524.0.0-slim",
        pattern=patterns.IMAGE,
        description="Image of that container; it needs gcloud",
    )
    every_s: int = Field(
        60, ge=1, le=86400, description="Seconds between copies; the last is made after the worker's end"
    )


class OpsAgent(BaseModel):
    """A collector beside each worker that sends processor, memory, disk and network of the host to Cloud Monitoring."""

    model_config = _FORBID

    image: str = Field(
        "otel/opentelemetry-collector-contrib:0.130.0",
        pattern=patterns.IMAGE,
        description="OpenTelemetry collector, contrib",
    )
    interval_s: int = Field(60, ge=10, le=86400, description="Seconds between samples")


class TensorBoard(BaseModel):
    """An uploader to Vertex AI TensorBoard: a job of its own in the JobSet, which does not hold up its end."""

    model_config = _FORBID

    instance: str = Field(
        pattern=patterns.TENSORBOARD,
        description="projects/P/locations/L/tensorboards/ID",
    )
    logdir: _Bucket = Field(description="Folder with the events")
    experiment: str | None = Field(
        None, pattern=patterns.EXPERIMENT, description="Its name there; not given: the workload's"
    )
    image: str = Field(
        pattern=patterns.IMAGE,
        description="An image with google-cloud-aiplatform[tensorboard], which has tb-gcp-uploader",
    )


class Pathways(BaseModel):
    """One program on a CPU host that sees the chips of all slices, through Pathways' servers on them."""

    model_config = _FORBID

    server_image: str = Field(
        pattern=patterns.IMAGE, description="…/pathways/server, by a tag with its JAX, or by digest"
    )
    proxy_image: str = Field(
        pattern=patterns.IMAGE, description="…/pathways/proxy_server, of the same version"
    )
    colocated_python_image: str | None = Field(
        None,
        pattern=patterns.IMAGE,
        description="…/pathways-colocated-python/sidecar, of the program's own JAX and Python",
    )
    scratch: _Bucket = Field(
        "gs://cloud-pathways-staging/tmp", description="Where its servers exchange programs"
    )
    head_node_pool: str | None = Field(
        "cpu-np",
        pattern=patterns.DNS_LABEL,
        description="Node pool of the program: 49 processors or more; null: any node",
    )
    headless: bool = Field(
        False, description="Run the servers alone, until stopped; programs connect to port 29000"
    )
    elastic_slices: int = Field(
        0, ge=0, le=1024, description="How many slices may be missing while it goes on; 0: none"
    )
    max_slice_restarts: int | None = Field(
        None,
        ge=1,
        le=patterns.MOST_STARTS,
        description="With elastic_slices: how often each slice is started again",
    )

    @model_validator(mode="after")
    def _agree(self) -> Pathways:
        for wrong in self._disagreements():
            raise ValueError(wrong)
        return self

    def _disagreements(self) -> Iterator[str]:
        if self.max_slice_restarts is not None and not self.elastic_slices:
            yield "max_slice_restarts: is for elastic_slices"
        found = {image: jax_of(image) for image in self.images if jax_of(image)}
        if len(set(found.values())) > 1:
            told = ", ".join(f"{image} has JAX {jax}" for image, jax in found.items())
            yield f"the images of Pathways must be of one JAX: {told}"

    @property
    def images(self) -> list[str]:
        """The images that are named."""
        named = (self.server_image, self.proxy_image, self.colocated_python_image)
        return [image for image in named if image is not None]

    def mismatches(self, jax: str | None, python: str | None) -> list[str]:
        """Returns what of its images is not as the program's JAX and Python, X.Y.Z and X.Y; None: not known."""
        wrong = [
            f"{image} has JAX {jax_of(image)}, and the program JAX {jax}"
            for image in self.images
            if jax and jax_of(image) not in (None, jax)
        ]
        sidecar = self.colocated_python_image
        theirs = _TAG_PYTHON.search(sidecar) if sidecar else None
        if python and theirs and theirs[1] != python:
            wrong.append(f"{sidecar} has Python {theirs[1]}, and the program Python {python}")
        return wrong

    def unpinned(self) -> list[str]:
        """Returns the images that may be others tomorrow: without a tag, or with the tag latest."""
        return [image for image in self.images if _floats(image)]


def jax_of(image: str) -> str | None:
    """Returns the version of JAX that an image's tag tells, if it does."""
    match = _TAG_JAX.search(image.rpartition("/")[2])
    return match[1] if match else None


def _floats(image: str) -> bool:
    tag = image.rpartition("/")[2].partition(":")[2]
    return "@sha256:" not in image and tag in ("", "latest")
