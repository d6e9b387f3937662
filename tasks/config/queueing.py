"""What a cluster that is made gets inside: JobSet and Kueue, in which versions and from where, and queues' quota."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tasks.config import patterns, size

_FORBID = ConfigDict(extra="forbid", frozen=True)
_RELEASE = "https://github.com/kubernetes-sigs/{}/releases/download/{}/manifests.yaml"


class Controller(BaseModel):
    """One controller: its version, where its manifests are, and what they must hash to."""

    model_config = _FORBID

    version: str = Field(pattern=patterns.RELEASE, description="Release, e.g. v0.12.0")
    manifests: str | None = Field(
        None,
        description="Address (https) of its manifests, or a file, from this file's folder on; not given: the release's "
        "own",
    )
    sha256: str | None = Field(
        None,
        pattern=patterns.SHA256,
        description="What the manifests hash to; not given: as when they were first seen",
    )


class JobSetController(Controller):
    """JobSet."""

    version: str = Field("v0.12.0", pattern=patterns.RELEASE, description="Release, e.g. v0.12.0")

    @property
    def address(self) -> str:
        """Where its manifests are."""
        return self.manifests or _RELEASE.format("jobset", self.version)


class KueueController(Controller):
    """Kueue."""

    version: str = Field("v0.19.2", pattern=patterns.RELEASE, description="Release, e.g. v0.19.2")

    @property
    def address(self) -> str:
        """Where its manifests are."""
        return self.manifests or _RELEASE.format("kueue", self.version)


class Queueing(BaseModel):
    """JobSet, Kueue, and the queue that workloads wait in."""

    model_config = _FORBID

    install: bool = Field(True, description="Put JobSet, Kueue and a queue into the cluster")
    jobset: JobSetController = Field(default_factory=lambda: JobSetController.model_validate({}))
    kueue: KueueController = Field(default_factory=lambda: KueueController.model_validate({}))
    cpu_limit: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="Virtual CPUs that workloads may take of each kind of machine; not given: what there is",
    )
    memory_limit: str | None = Field(
        None, pattern=size.PATTERN, description="Memory, the same: 800GiB; not given: what there is"
    )
