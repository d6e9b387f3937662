"""What an environment has inside its cluster: namespaces, the Kubernetes account of workloads, a queue in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.container_model import Cluster
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_gke import access_of
from tasks.cloud.kubernetes_kinds import LOCAL_QUEUE, NAMESPACE, SERVICE_ACCOUNT
from tasks.cloud.timing import Timing
from tasks.config.cluster import ClusterConfig
from tasks.config.environment import EnvironmentConfig
from tasks.stages.cluster_inside import Inside
from tasks.targets.environment_wanted import email, namespaces
from tasks.targets.kube_install import USUAL, Waits, fetched
from tasks.targets.kube_queue_up import apply
from tasks.targets.kube_queues import CLUSTER_QUEUE_NAME, LOCAL_QUEUE_NAME, MANAGED

SOON = Timing(try_s=8.0, total_s=12.0)
"""For who only wants to know whether something can be fetched."""
ACTS_AS = "iam.gke.io/gcp-service-account"
"""The annotation by which Workload Identity knows as whom a Kubernetes account acts."""


@dataclass(frozen=True)
class EnvironmentInside(Inside):
    """`spaces` are the namespaces of workloads, `account` their Kubernetes account, which acts as `whom`."""

    spaces: tuple[str, ...] = ()
    account: str = ""
    whom: str = ""
    fetching: Timing | None = None

    def ready(self, config: ClusterConfig) -> None:
        """See Inside. Says what to do where there is no way to the releases."""
        try:
            fetched(config.queueing, timing=self.fetching)
        except BadInput:
            raise
        except InfrastructureError as error:
            raise InfrastructureError(
                f"{error}: where there is no way to it, queueing.jobset.manifests and queueing.kueue.manifests name "
                "files in its place, and queueing.install: false leaves both out"
            ) from error

    def set_up(self, cluster: Cluster, config: ClusterConfig) -> None:
        """See Inside. Namespaces come first, for the queues are in them."""
        api = Kubernetes(access_of(cluster, self.namespace))
        for space in self.spaces:
            apply(api, {"metadata": {"name": space, "labels": dict(MANAGED)}}, NAMESPACE, self.say)
        super().set_up(cluster, config)
        for space in self.spaces:
            meta = {"namespace": space, "labels": dict(MANAGED)}
            account = {**meta, "name": self.account, "annotations": {ACTS_AS: self.whom}}
            apply(api, {"metadata": account}, SERVICE_ACCOUNT, self.say)
            if config.queueing.install:
                queue = {**meta, "name": LOCAL_QUEUE_NAME}
                spec = {"clusterQueue": CLUSTER_QUEUE_NAME}
                apply(api, {"metadata": queue, "spec": spec}, LOCAL_QUEUE, self.say)


def inside_of(
    config: EnvironmentConfig, project: str, say: Callable[[str], None], waits: Waits = USUAL
) -> EnvironmentInside:
    """Returns what is put into the cluster of an environment."""
    workloads, spaces = config.accounts.workloads, tuple(namespaces(config))
    whom = email(workloads.name, project)
    return EnvironmentInside(say, waits, spaces[0], spaces, workloads.kubernetes, whom)
