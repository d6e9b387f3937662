"""Model of the files in configs/environments/: a shared, queued cluster with all that is around it in a project."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from runtime.contract.errors import BadInput
from runtime.contract.nearest import nearest
from tasks.config import patterns
from tasks.config.accelerators import Accelerator, accelerator, tpu_machines
from tasks.config.environment_fields import contradicting
from tasks.config.environment_parts import (
    Accounts,
    Bucket,
    ControlPlane,
    EnvironmentCpuPool,
    Network,
    NodeAccount,
    Registry,
    Team,
    TensorBoard,
    TpuPools,
    WorkloadAccount,
)
from tasks.config.environment_ranges import Range, Sizes, ranges_of, wrong_with
from tasks.config.environment_risks import wrong_spaces
from tasks.config.queueing import JobSetController, KueueController, Queueing

Path = tuple[str | int, ...]

_USUAL_TOPOLOGY = {"ct4p-hightpu-4t": "2x2x2"}
_METRICS = "roles/monitoring.metricWriter"
_NODES_A_CONTROLLER = 60
"""One CPU machine more for so many TPU machines, as for other clusters."""
_VERTEX_ELSEWHERE = {"us-central2": "us-central1"}
"""Regions with TPUs in which Vertex AI is not offered, and the nearest in which it is."""


class EnvironmentConfig(BaseModel):
    """Everything of an environment, as it is to be."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(
        None,
        pattern=patterns.ENVIRONMENT,
        description="What its record is called; not given: as the cluster is",
    )
    project: str | None = Field(
        None, pattern=patterns.PROJECT, description="Google Cloud project; not given: from the environment"
    )
    region: str = Field(pattern=patterns.REGION, description="Of network, control plane, bucket and registry")
    zone: str = Field(pattern=patterns.ZONE, description="Of all machines")
    record: str = Field(
        pattern=patterns.RECORD, description="Where its record lives, locked: gs://BUCKET/PREFIX"
    )
    network: Network
    cluster: ControlPlane
    cpu_pool: EnvironmentCpuPool = Field(default_factory=lambda: EnvironmentCpuPool.model_validate({}))
    tpu_pools: int = Field(1, ge=0, le=1000, description="TPU pools, a slice each; 0: give the TPUs back")
    tpu: TpuPools = Field(default_factory=lambda: TpuPools.model_validate({}))
    accounts: Accounts = Field(default_factory=lambda: Accounts.model_validate({}))
    namespace: str = Field(
        "tpu-training", pattern=patterns.DNS_LABEL, description="Kubernetes namespace of workloads"
    )
    bucket: Bucket
    registry: Registry | None = Field(
        default_factory=lambda: Registry.model_validate({}), description="null: none"
    )
    tensorboard: TensorBoard | None = Field(
        default_factory=lambda: TensorBoard.model_validate({}), description="null: none"
    )
    queueing: Queueing = Field(
        default_factory=lambda: Queueing.model_validate({}), description="JobSet and Kueue: versions, limits"
    )
    teams: tuple[Team, ...] = Field((), description="Who shares the TPUs; not given: one queue for all")

    nested: ClassVar[Mapping[str, type[BaseModel]]] = {
        "network": Network,
        "cluster": ControlPlane,
        "cpu_pool": EnvironmentCpuPool,
        "tpu": TpuPools,
        "accounts": Accounts,
        "nodes": NodeAccount,
        "workloads": WorkloadAccount,
        "bucket": Bucket,
        "registry": Registry,
        "tensorboard": TensorBoard,
        "queueing": Queueing,
        "jobset": JobSetController,
        "kueue": KueueController,
        "teams": Team,
    }

    @property
    def called(self) -> str:
        """Its name."""
        return self.name or self.cluster.name

    @property
    def shape(self) -> Accelerator:
        """What one TPU pool is made of. Raises BadInput."""
        topology = self.tpu.topology or _USUAL_TOPOLOGY.get(self.tpu.machine_type)
        return accelerator(self.tpu.machine_type, topology)

    @property
    def sizes(self) -> Sizes:
        """How many nodes there may be."""
        tpus = self.tpu_pools * self.shape.hosts
        pool = self.cpu_pool
        grown = max(pool.nodes, 3 + math.ceil(tpus / _NODES_A_CONTROLLER))
        return Sizes(tpus, pool.most if pool.most is not None else grown)

    @property
    def ranges(self) -> tuple[Range, Range, Range]:
        """Addresses of nodes, pods and services."""
        return ranges_of(self.network, self.sizes)

    @property
    def node_roles(self) -> tuple[str, ...]:
        """Roles of the machines' account: those that are said, and one to write metrics where these are wanted."""
        roles = self.accounts.nodes.roles
        return (*roles, _METRICS) if self.cluster.monitoring and _METRICS not in roles else roles

    @property
    def has_nat(self) -> bool:
        """Whether there is a router with NAT: nodes without public addresses reach nothing without.

        None is made unasked in a shared VPC, which is others'.
        """
        if self.network.nat is not None:
            return self.network.nat
        return self.cluster.private and self.network.host_project is None

    @property
    def tensorboard_location(self) -> str:
        """Where TensorBoard is, if there is one."""
        told = self.tensorboard.location if self.tensorboard else None
        return told or _VERTEX_ELSEWHERE.get(self.region, self.region)


def crossed(config: EnvironmentConfig) -> Iterator[tuple[Path, str]]:
    """Yields what does not go together in different parts of a file: where that stands, and what is wrong with it."""
    if config.zone.rpartition("-")[0] != config.region:
        yield ("zone",), f"zone: {config.zone} is not in the region {config.region}"
    try:
        shape = config.shape
    except BadInput as error:
        told = str(error)
        if not told.startswith("topology"):
            told = _no_machine(config.tpu.machine_type)
        yield ("tpu", "topology" if told.startswith("topology") else "machine_type"), told
        return
    if shape.kind != "tpu":
        yield ("tpu", "machine_type"), _no_machine(config.tpu.machine_type)
        return
    if config.record.split("/")[2] == config.bucket.name:
        yield (
            ("record",),
            f"record: {config.bucket.name} is the environment's own bucket, which can go with it: take another one",
        )
    hosts = config.tpu.hosts
    if hosts is not None and hosts != shape.hosts:
        yield (
            ("tpu", "hosts"),
            f"hosts: a slice of {config.tpu.machine_type} with topology {shape.topology} is {shape.hosts} hosts, "
            f"not {hosts}: leave hosts out, or choose another topology",
        )
    for field, wrong in wrong_with(config.network, config.sizes):
        yield ("network", field), f"{field}: {wrong}"
    if config.tensorboard is not None and config.tensorboard.location in _VERTEX_ELSEWHERE:
        near = _VERTEX_ELSEWHERE[config.tensorboard.location]
        yield (
            ("tensorboard", "location"),
            f"location: Vertex AI is not in {config.tensorboard.location}: leave it out, or take {near}",
        )
    yield from contradicting(config.cluster, config.tpu)
    yield from wrong_spaces(config.namespace, config.teams)
    yield from _of_teams(config)


def _no_machine(name: str) -> str:
    known = tpu_machines()
    near = nearest(name.lower(), known) if name.lower().startswith(("ct", "tpu")) else None
    return f"machine_type: {name} is no TPU machine type: " + (
        f"did you mean {near}?" if near else f"there are {', '.join(known)}"
    )


def _of_teams(config: EnvironmentConfig) -> Iterator[tuple[Path, str]]:
    names: dict[str, int] = {}
    spaces: dict[str, int] = {}
    for index, team in enumerate(config.teams):
        for what, word, known in (
            ("name", team.name, names),
            ("namespace", team.namespace or team.name, spaces),
        ):
            if word in known:
                yield (("teams", index, what), f"{what}: {word} is that of team {known[word] + 1} as well")
            known.setdefault(word, index)
