"""Model of a target file for Kubernetes: a JobSet on GKE, or on any cluster that a kubeconfig context names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from runtime.contract.errors import BadInput
from runtime.contract.job import Platform
from tasks.config import patterns, size
from tasks.config.accelerators import accelerator
from tasks.config.cluster_make import ClusterMake, CpuPool
from tasks.config.envfile import looks_secret, set_in_pods_by, wrong_variable
from tasks.config.gke_fields import ExitCodes, LabelKey, LabelKeys, LabelValue, ObjectName, Processors
from tasks.config.gke_parts import DebugDump, ImageBuild, OpsAgent, Pathways, RamDisk, Shared, TensorBoard
from tasks.config.gke_place import ClusterPlace
from tasks.config.gke_rules import GkeRules
from tasks.config.queueing import JobSetController, KueueController, Queueing
from tasks.config.sidecar import BESIDE, WithSidecar
from tasks.config.sidecar_in_pods import wrong_in_pods

_FORBID = ConfigDict(extra="forbid", frozen=True)
_Models = Mapping[str, type[BaseModel]]


class GkeLimits(BaseModel):
    """How long each part may take, seconds. null: without end."""

    model_config = _FORBID

    queue_s: int | None = Field(
        24 * 3600,
        gt=0,
        le=patterns.MOST_S,
        description="For a workload's turn in its queue, each attempt's; it counts towards no other limit. Not given: "
        "15 min on machines that were made for runs, while nobody else has the queue's quota",
    )
    provisioning_s: int | None = Field(
        2 * 3600,
        gt=0,
        le=patterns.MOST_S,
        description="For a cluster or node pools that are made for the run and for others who work on the cluster; "
        "and again for a workload that has its turn, until its pods run: nodes, image pulls",
    )
    workload_s: int | None = Field(
        None,
        gt=0,
        le=patterns.MOST_S,
        description="For the workload once it is admitted: the cluster itself ends it then, whatever became of us",
    )
    termination_grace_s: int = Field(
        30, ge=0, le=3600, description="From SIGTERM to SIGKILL, for what is to be saved"
    )
    ttl_s: int | None = Field(
        12 * 3600,
        ge=0,
        le=patterns.MOST_S,
        description="How long the JobSet, its pods and their logs stay after the end; null: for ever",
    )
    attempts: int = Field(
        3,
        ge=1,
        le=patterns.MOST_STARTS,
        description="Starts of the workload, when hardware is taken away under it",
    )


class GkeTargetConfig(GkeRules, WithSidecar):
    """Pods of one JobSet: a replicated job for the slices, a pod for each host of a slice."""

    model_config = _FORBID

    kind: Literal["gke"]
    context: str | None = Field(
        None,
        pattern=patterns.ONE_LINE,
        description="Context of a kubeconfig file: any cluster, used as it is",
    )
    kubeconfig: str | None = Field(
        None,
        pattern=patterns.ONE_LINE,
        description="That file; not given: $KUBECONFIG, else ~/.kube/config. It is never written",
    )
    cluster: ClusterPlace | None = Field(None, description="A cluster of GKE, in place of a context")
    namespace: str = Field(
        "default", pattern=patterns.DNS_LABEL, description="Where the JobSet is made; it must be there"
    )

    type: str = Field(
        min_length=1,
        description="Accelerator type of one slice: v5litepod-16, h100-80gb-8, n2-standard-32-2, or cpu on any cluster",
    )
    topology: str | None = Field(None, description="Topology of a TPU slice, if its size has several: 4x4x16")
    slices: int = Field(1, ge=1, le=1024, description="Slices, each of that type")
    nodes: int | None = Field(
        None, ge=1, le=4096, description="Hosts of one slice, for GPUs and for type: cpu"
    )
    containers_per_host: int = Field(
        1, ge=1, le=8, description="Workers on each host; they share its chips evenly"
    )
    devices_per_worker: Annotated[int, Field(gt=0, le=4096)] | Literal["auto"] = Field(
        "auto", description="Devices of each worker on CPUs; auto: as many as the suite's meshes need"
    )
    platform: Platform = Field("cpu", description="What the workers compute on; not given: as the type does")

    image: str | None = Field(
        None,
        pattern=patterns.IMAGE,
        description="Image of the workers, by tag or digest; pods get its digest. In its place: build:",
    )
    build: ImageBuild | None = Field(
        None, description="How the stage build makes the image from the run's source, in place of image:"
    )
    smoke: bool = Field(
        True,
        description="Whether an image that is new on the cluster is tried in one pod first, without chips",
    )
    image_pull_secret: ObjectName | None = Field(
        None, description="Secret of the namespace that its registry asks for"
    )
    container_name: str = Field(
        "worker", pattern=patterns.DNS_LABEL, description="Name of the container, as logs and kubectl show it"
    )
    env: Mapping[str, str] = Field(default_factory=dict, description="Environment of the workers; no secrets")
    cpu: Processors | None = Field(None, description="Processors that each worker asks for, as 24 or 500m")
    memory: str | None = Field(
        None, pattern=size.PATTERN, description="Memory that each worker asks for, as 100GiB"
    )
    service_account: ObjectName | None = Field(
        None, description="Kubernetes service account of the pods, e.g. one of Workload Identity"
    )
    host_network: bool | Literal["auto"] = Field(
        "auto",
        description="Whether pods use their hosts' networks: faster, but without Workload Identity. "
        "auto: on accelerators of GKE that fill their hosts, unless service_account, gpu_networks or "
        "make.workload_identity are given",
    )
    privileged: bool | Literal["auto"] = Field(
        "auto",
        description="Whether containers are privileged; auto: on TPUs and GPUs of GKE that fill their hosts",
    )
    gpu_networks: tuple[str, ...] | None = Field(
        None,
        description="Networks of the cluster for GPUs on several hosts, in the order of their interfaces. "
        "[]: none, TCP over the host's own",
    )

    queue: str | None = Field(
        "multislice-queue",
        pattern=patterns.QUEUE,
        description="LocalQueue of Kueue in the namespace; null: without a queue",
    )
    priority: ObjectName | None = Field(
        "medium", description="Priority class of the pods; null: the cluster's default"
    )
    scheduler: str | None = Field(
        None, pattern=patterns.ONE_WORD, description="Scheduler of the pods; not given: Kubernetes' own"
    )
    exclusive_topology: str | None = Field(
        "auto",
        pattern=patterns.LABEL_KEY,
        description="Node label of which each slice has a value to itself; null: none. "
        "auto: a node pool for each slice, on TPUs and CPUs of GKE",
    )
    node_selector: Mapping[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Labels that nodes must have as well"
    )
    tolerations: LabelKeys = Field((), description="Keys of taints that are tolerated as well")
    pod_annotations: Mapping[LabelKey, str] = Field(
        default_factory=dict, description="Annotations of the pods, such as Kueue's podset-required-topology"
    )
    lock: bool = Field(False, description="One run at a time on this cluster, where no queue sees to it")

    max_restarts: int = Field(
        0,
        ge=0,
        le=patterns.MOST_STARTS,
        description="How often the workload is started again after a failure; preemptions do not count",
    )
    restart_on_user_code_failure: bool = Field(
        False,
        description="Whether that holds for every failure; else only for signals and restart_exit_codes",
    )
    restart_exit_codes: ExitCodes = Field(
        (), description="Exit codes of the program after which it is started again as well: 1, 3-5"
    )

    shared: Shared | None = Field(
        None, description="A folder that pods share with this machine; without it outputs are buckets"
    )
    ramdisk: RamDisk | None = Field(None, description="A folder in the hosts' memory, for local checkpoints")
    debug_dump: DebugDump | None = Field(
        None, description="XLA dumps in a bucket, whatever becomes of the worker"
    )
    ops_agent: OpsAgent | None = Field(None, description="Send the hosts' metrics to Cloud Monitoring")
    tensorboard: TensorBoard | None = Field(None, description="Uploads to Vertex AI TensorBoard meanwhile")
    pathways: Pathways | None = Field(None, description="One program for all slices, through Pathways")

    workload_name: str | None = Field(
        None, pattern=patterns.DNS_LABEL, description="Name of the JobSet; not given: after the run"
    )
    wait: bool = Field(
        True, description="Whether a run waits for its workload; if not, limits.workload_s ends it"
    )
    limits: GkeLimits = Field(default_factory=lambda: GkeLimits.model_validate({}))

    nested: ClassVar[_Models] = {
        "cluster": ClusterPlace,
        "make": ClusterMake,
        "build": ImageBuild,
        "cpu_pool": CpuPool,
        "queueing": Queueing,
        "jobset": JobSetController,
        "kueue": KueueController,
        "limits": GkeLimits,
        "shared": Shared,
        "ramdisk": RamDisk,
        "debug_dump": DebugDump,
        "ops_agent": OpsAgent,
        "tensorboard": TensorBoard,
        "pathways": Pathways,
        **BESIDE,
    }

    @model_validator(mode="before")
    @classmethod
    def _platform_of_the_type(cls, fields: Any) -> Any:
        """Fills in what the type computes on; a type that is none is found out by its own field."""
        if isinstance(fields, Mapping) and fields.get("platform") is None:
            try:
                kind = accelerator(str(fields.get("type"))).kind
            except BadInput:
                kind = "cpu"
            return {**fields, "platform": kind}
        return fields

    @field_validator("type")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            accelerator(name)
        except BadInput as error:
            raise ValueError(str(error)) from None
        return name

    @field_validator("env")
    @classmethod
    def _no_secrets(cls, env: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in env.items():
            if wrong := wrong_variable(name, value):
                raise ValueError(", ".join(part for part in (*wrong[:2], "leave it out") if part))
            if who := set_in_pods_by(name):
                raise ValueError(f"{name} is set by {who}, leave it out")
        if told := next((name for name in env if looks_secret(name)), None):
            raise ValueError(
                f"{told} sounds like a secret, which a file keeps: give --env {told}, or an --env-file"
            )
        return env

    @model_validator(mode="after")
    def _makes_sense(self) -> GkeTargetConfig:
        for wrong in self.wrong():
            raise ValueError(wrong)
        if self.pathways is not None and self.pathways.headless and (self.encryption or self.sidecar):
            raise ValueError(
                "pathways: has no worker, headless: true, that encryption: or sidecar: could stand beside"
            )
        for wrong in wrong_in_pods(self):
            raise ValueError(wrong)
        if self.image is not None and self.build is not None:
            raise ValueError("image: is taken as it is, and build: would make another one; leave one out")
        return self

    def with_choices(self, workers: int | None, devices_per_worker: int | None) -> GkeTargetConfig:
        """Returns the target with devices that a request chose, on CPUs. Raises BadInput for what the type says."""
        if workers is not None and workers != self.workers:
            raise BadInput(
                f"--workers {workers}: workers of a GKE target follow from its type",
                fix=f"leave --workers out, or choose another type than {self.type}",
            )
        if devices_per_worker is None:
            return self
        if self.shape.kind != "cpu":
            raise BadInput(
                f"devices of a GKE target follow from its type, {self.type}",
                fix="leave --devices-per-worker out",
            )
        return self.model_copy(update={"devices_per_worker": devices_per_worker})
