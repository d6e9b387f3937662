"""How a cluster of GKE is made, whatever runs on it: control plane, network, who gets in, CPU machines."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tasks.config import duration, patterns
from tasks.config.queueing import Queueing

_FORBID = ConfigDict(extra="forbid", frozen=True)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+|default")
_NETWORK = re.compile(
    r"(projects/[^/\s]+/(global/networks|regions/[^/\s]+/subnetworks)/)?[a-z]([-a-z0-9]*[a-z0-9])?"
)
_ACCELERATED = re.compile(r"(ct\d\w*|tpu\d\w*|a[2-9]x?|g[2-9])-")
_DISK_TYPE = re.compile(r"(pd|hyperdisk)-[a-z]+(-[a-z]+)*")

Channel = Literal["rapid", "regular", "stable", "extended"]


class CpuPool(BaseModel):
    """Machines for what is no workload: controllers, DNS, coordinators. They come and go with what runs on them."""

    model_config = _FORBID

    machine_type: str = Field(
        "e2-standard-16",
        pattern=patterns.TAG,
        description="Machine type; every zone of the region must have it",
    )
    nodes: int = Field(1, ge=1, le=15000, description="Machines at least, in all")
    most: int | None = Field(
        None, ge=1, le=15000, description="Machines at most; not given: as the size of the rest needs"
    )
    disk_gb: int = Field(100, ge=10, le=65536, description="Boot disk of each")
    disk_type: str | None = Field(None, description="Its type, e.g. pd-balanced; not given: GKE's default")

    @field_validator("machine_type")
    @classmethod
    def _has_no_accelerators(cls, given: str) -> str:
        if _ACCELERATED.match(given):
            raise ValueError(
                f"{given} has accelerators, which cost, and which no controller uses: name one without"
            )
        return given

    @field_validator("disk_type")
    @classmethod
    def _is_a_type(cls, given: str | None) -> str | None:
        return _like(given, _DISK_TYPE, "type of disks, such as pd-balanced")


class ClusterMake(BaseModel):
    """What a cluster is like beside its accelerators. A target says it under `cluster: {make: …}`."""

    model_config = _FORBID

    regional: bool = Field(
        True, description="Control plane in the region, so that it survives a zone; else in the zone"
    )
    max_run: str | None = Field(
        None,
        pattern=duration.PATTERN,
        description="Accelerators go by themselves after so long; flex_start: at most 7d",
    )
    placement_policy: str | None = Field(
        None,
        pattern=patterns.TAG,
        description="Workload policy that is there, for types whose hosts need one (tpu7x); not given: one is made",
    )
    channel: Channel = Field("regular", description="Release channel")
    version: str | None = Field(
        None,
        pattern=patterns.VERSION,
        description="Version of GKE, e.g. 1.33; not given: the channel's default",
    )
    maintenance: str | None = Field(
        None,
        pattern=patterns.TIME_OF_DAY,
        description="When GKE may upgrade, each day from this time of UTC: 03:00",
    )
    network: str | None = Field(None, description="VPC network; not given: default")
    subnetwork: str | None = Field(None, description="Its subnetwork, with addresses for every node")
    pods_range: str | None = Field(None, description="Secondary range of the subnetwork, or CIDR, for pods")
    services_range: str | None = Field(None, description="The same, for services")
    private: bool = Field(False, description="Nodes without public addresses")
    private_endpoint: bool = Field(False, description="Control plane without one, too")
    global_access: bool = Field(False, description="The private one is reached from every region")
    authorized_networks: tuple[str, ...] = Field(
        (), description="Who reaches the control plane by its address: CIDRs, or NAME=CIDR"
    )
    dns_access: bool | None = Field(
        None,
        description="Whether whoever may use it reaches it by its DNS name, from anywhere; not given: unless "
        "private_endpoint",
    )
    workload_identity: bool = Field(False, description="Pods act as their Kubernetes service account")
    service_account: str | None = Field(None, description="E-mail of the account that nodes act as")
    image_streaming: bool = Field(
        False, description="Start containers before their image is there as a whole"
    )
    gpu_networks: Literal["auto", "none"] = Field(
        "auto",
        description="Networks by which GPUs reach those of other hosts. auto: those that GKE itself makes, and refused "
        "where it makes none; none: TCP, which is slow",
    )
    autoprovision: int | None = Field(
        None, ge=1, le=10**6, description="Chips that GKE may add by itself when pods ask for them"
    )
    cpu_pool: CpuPool = Field(
        default_factory=lambda: CpuPool.model_validate({}), description="Machines for controllers"
    )
    cluster_fields: Mapping[str, Any] = Field(
        default_factory=dict, description="Fields of the API's Cluster, by path"
    )
    cpu_pool_fields: Mapping[str, Any] = Field(
        default_factory=dict, description="The same, of the CPU pool's NodePool"
    )
    pool_fields: Mapping[str, Any] = Field(
        default_factory=dict, description="The same, of accelerators' NodePools"
    )
    queueing: Queueing = Field(
        default_factory=lambda: Queueing.model_validate({}), description="JobSet, Kueue and the queue in it"
    )

    @field_validator("max_run")
    @classmethod
    def _is_some_time(cls, given: str | None) -> str | None:
        if given is not None and not duration.seconds(given):
            raise ValueError(f"{given!r} is no time at all: write 90s, 30m, 4h or 2d")
        return given

    @field_validator("service_account")
    @classmethod
    def _is_an_account(cls, given: str | None) -> str | None:
        example = "nodes@my-project.iam.gserviceaccount.com"
        return _like(given, _EMAIL, f"e-mail of a service account, such as {example}")

    @field_validator("network", "subnetwork")
    @classmethod
    def _is_a_name(cls, given: str | None) -> str | None:
        return _like(given, _NETWORK, "name of a network, such as my-network")

    @field_validator("authorized_networks", mode="before")
    @classmethod
    def _one_or_more(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names

    @field_validator("authorized_networks")
    @classmethod
    def _are_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for one in given:
            try:
                ipaddress.ip_network(one.rpartition("=")[2])
            except ValueError as error:
                raise ValueError(f"{one!r} is no network such as 203.0.113.0/24 ({error})") from None
        return given

    @field_validator("pods_range", "services_range")
    @classmethod
    def _is_a_range(cls, given: str | None) -> str | None:
        """A name of a secondary range, a CIDR, or only its length."""
        if given is None or re.fullmatch(patterns.TAG, given) or re.fullmatch(r"/([89]|1\d|2[0-9])", given):
            return given
        try:
            ipaddress.ip_network(given)
        except ValueError as error:
            raise ValueError(
                f"{given!r} is no range such as 10.4.0.0/14, nor the name of one ({error})"
            ) from None
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> ClusterMake:
        for wrong in self._at_odds():
            raise ValueError(wrong)
        return self

    def _at_odds(self) -> Iterator[str]:
        if self.private_endpoint and not self.private:
            yield "private_endpoint needs private: true"
        if self.global_access and not self.private:
            yield "global_access needs private: true"
        if self.cpu_pool.most is not None and self.cpu_pool.most < self.cpu_pool.nodes:
            yield "cpu_pool: most is less than nodes"

    @property
    def by_dns(self) -> bool:
        """Whether the control plane answers at its DNS name from outside: to nobody without permission, by IAM."""
        return not self.private_endpoint if self.dns_access is None else self.dns_access


def _like(given: str | None, form: re.Pattern[str], what: str) -> str | None:
    """Returns what was given; raises ValueError where it has not the form of what it is to be."""
    if given is not None and not form.fullmatch(given):
        raise ValueError(f"{given!r} is no {what}")
    return given
