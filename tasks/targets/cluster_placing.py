"""Workload policies: by one of them hosts of a slice are placed near each other; made for the cluster's lease."""

from __future__ import annotations

from tasks.cloud.compute import Compute
from tasks.cloud.container import Container
from tasks.cloud.resource_names import name_of
from tasks.config.cluster import ClusterConfig
from tasks.leases.holding import Holding
from tasks.leases.policies import POLICY


def needs_policy(config: ClusterConfig) -> bool:
    """Whether a workload policy is made for the hosts of each slice: none is named, and they need one."""
    shape = config.shape
    return shape is not None and shape.placement == "workload_policy" and config.placement_policy is None


def placed(holding: Holding, container: Container, config: ClusterConfig) -> ClusterConfig:
    """Returns the config with the policy that places hosts, made when it is missing; as it is where none is needed.

    Slices of one topology share it. Raises ContainerError, Fenced.
    """
    shape = config.shape
    if shape is None or not needs_policy(config):
        return config
    compute = Compute(container.project, timing=container.timing)
    region = config.zone.rpartition("-")[0]
    scope, labels = f"{container.project}/{region}", holding.resource_labels
    name = name_of(holding.lease.lease_id, shape.topology)
    known = holding.lease.find(POLICY, scope, name)
    if known is None or known.uid is None:
        holding.create(
            POLICY, scope, name, lambda: compute.create_policy(region, name, shape.topology, labels).uid
        )
    return config.model_copy(update={"placement_policy": name})
