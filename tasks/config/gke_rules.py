"""What a GKE target means beyond its fields: what cannot hold together, and what follows from the type.

Apart from the model, which needs pydantic: a command that has only flags is through before that is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from runtime.contract.errors import BadInput
from tasks.config.accelerators import Accelerator, accelerator

if TYPE_CHECKING:
    from tasks.config.gke_parts import Pathways
    from tasks.config.gke_place import ClusterPlace
    from tasks.config.gke_target import GkeLimits


_NETWORKS: dict[tuple[str | None, int], int] = {("tcpx", 8): 4, ("tcpxo", 8): 8, ("rdma", 8): 9}
"""Networks beside the cluster's own, by how GPUs reach each other and how many a host has: one for each card of the
host, and with RDMA one more (cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx)."""


class GkeRules:
    """The part of a target that is worked out. What is read here are the fields of GkeTargetConfig, which has them."""

    if TYPE_CHECKING:
        type: str
        container_name: str
        topology: str | None
        nodes: int | None
        slices: int
        containers_per_host: int
        devices_per_worker: int | Literal["auto"]
        context: str | None
        kubeconfig: str | None
        cluster: ClusterPlace | None
        service_account: str | None
        host_network: bool | Literal["auto"]
        privileged: bool | Literal["auto"]
        gpu_networks: tuple[str, ...] | None
        queue: str | None
        exclusive_topology: str | None
        lock: bool
        max_restarts: int
        restart_on_user_code_failure: bool
        restart_exit_codes: tuple[int, ...]
        pathways: Pathways | None
        wait: bool
        limits: GkeLimits

    def wrong(self) -> Iterator[str]:
        """Yields what is wrong with the fields together."""
        yield from self._contradictions()
        yield from self._unfit()

    def _contradictions(self) -> Iterator[str]:
        """Yields what of the file cannot hold together."""
        if (self.context is None) == (self.cluster is None):
            yield "name either a context: or a cluster:"
        if self.kubeconfig is not None and self.context is None:
            yield "kubeconfig: is read for a context: that is named"
        if not self.max_restarts and (self.restart_on_user_code_failure or self.restart_exit_codes):
            yield "nothing is started again with max_restarts: 0"
        if self.restart_on_user_code_failure and self.restart_exit_codes:
            yield "restart_on_user_code_failure: true means every exit code: leave restart_exit_codes out"
        if not self.wait and self.limits.workload_s is None:
            yield "wait: false needs limits.workload_s, when the cluster ends the workload by itself"
        if not self.wait and self.queue is not None and self.limits.queue_s is None:
            yield "wait: false needs limits.queue_s, after which nobody waits for its turn any more"
        if self.pathways is not None and self.pathways.headless and self.limits.workload_s is None:
            yield "pathways.headless never ends by itself: say limits.workload_s, when the cluster ends it"
        if self.pathways is not None and self.pathways.elastic_slices > self.slices:
            yield (
                f"pathways.elastic_slices: {self.pathways.elastic_slices} of slices: {self.slices} may be missing, "
                "which is more than there are"
            )
        if self.lock and self.queue is not None:
            yield "lock: true is for clusters without a queue; this one's decides who runs"

    def _unfit(self) -> Iterator[str]:
        """Yields what does not go with the type."""
        try:
            shape = self.shape
        except BadInput as error:
            yield str(error)
            return
        if shape.chips_per_host % self.containers_per_host and shape.kind != "cpu":
            yield (
                f"containers_per_host: {self.containers_per_host} cannot share {shape.chips_per_host} "
                f"{shape.unit}s of a host"
            )
        if shape.kind != "cpu" and self.devices_per_worker != "auto":
            yield f"devices_per_worker follows from the type {self.type}"
        if self.pathways is not None and not shape.pathways:
            yield f"Pathways runs on TPUs, not on {self.type}"
        if self.gpu_networks and self.host_network is True:
            yield "gpu_networks are the pod's own: they do not go with host_network: true"
        if self.gpu_networks is not None and shape.gpu_direct is None:
            yield f"gpu_networks are for GPUs that reach each other directly, not for {self.type}"
        least = _NETWORKS.get((shape.gpu_direct, shape.chips_per_host), 0)
        if self.gpu_networks and len(self.gpu_networks) < least:
            yield (
                f"GPUs of {self.type} reach each other over {least} networks beside the cluster's own, and "
                f"gpu_networks names {len(self.gpu_networks)}: through the rest they would be slow, and nobody says so"
            )
        hosts = shape.hosts * self.slices
        if shape.gpu_direct is not None and hosts > 1 and self.gpu_networks is None:
            yield (
                f"GPUs of {hosts} hosts of {self.type} reach each other by GPUDirect-{shape.gpu_direct.upper()}: "
                "name the cluster's networks in gpu_networks, or write gpu_networks: [] to do without"
            )
        capacity = self.cluster.capacity_made if self.cluster else None
        if self.cluster and self.cluster.create == "if_missing" and capacity not in shape.capacities:
            known = " or ".join(sorted(shape.capacities))
            yield f"{self.type} is not given as {capacity}, but as {known}"

    @property
    def shape(self) -> Accelerator:
        """What one slice is made of. Raises BadInput for a topology or nodes that do not fit the type."""
        return accelerator(self.type, self.topology, self.nodes)

    @property
    def python(self) -> None:
        """Workers run the Python of their image: there is none to name."""
        return None

    @property
    def workers(self) -> int:
        """How many workers there are, all slices together; with Pathways one program, on a host of its own."""
        if self.pathways is not None:
            return 1
        return self.slices * self.shape.hosts * self.containers_per_host

    @property
    def container_names(self) -> list[str]:
        """The names of the containers that run the program in each pod."""
        if self.containers_per_host == 1:
            return [self.container_name]
        return [f"{self.container_name}-{number}" for number in range(1, self.containers_per_host + 1)]

    @property
    def on_gke(self) -> bool:
        """Whether the type names machines of GKE, with its labels, and not hosts of any cluster."""
        return bool(self.shape.machine_type)

    @property
    def uses_host_network(self) -> bool:
        """Whether pods use their hosts' networks: not where two would meet at the same ports of one host."""
        if self.host_network == "auto":
            identity = self.cluster is not None and self.cluster.make_fields.get("workload_identity")
            others = self.service_account is not None or identity or self.gpu_networks
            return self.on_gke and not others and not self.shape.may_share_hosts
        return self.host_network

    @property
    def is_privileged(self) -> bool:
        """Whether containers are privileged: not where they would see the GPUs of others on their host, too."""
        if self.privileged == "auto":
            return self.on_gke and self.shape.kind != "cpu" and not self.shape.may_share_hosts
        return self.privileged

    @property
    def exclusive_label(self) -> str | None:
        """The node label of which each slice has a value to itself."""
        if self.exclusive_topology == "auto":
            return "cloud.google.com/gke-nodepool" if self.on_gke and self.shape.kind != "gpu" else None
        return self.exclusive_topology
