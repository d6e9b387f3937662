"""The kinds of Kubernetes objects that slicebench speaks of, and the paths under which they are served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

Object: TypeAlias = Mapping[str, Any]
"""An object of the API as JSON has it."""

ALL_NAMESPACES = "*"


class Kind(NamedTuple):
    """One kind in one version. `plural` is its name in paths; `group` is empty for the core of Kubernetes."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_plural(self) -> str:
        """As errors and kubectl name it, with its group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None, name: str = "", sub: str = "") -> str:
        """Returns the path of all of a namespace (ALL_NAMESPACES: of the cluster), of one, or of a part of one."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace != ALL_NAMESPACES:
            if not namespace:
                raise ValueError(f"{self.name} is asked for without a namespace")
            parts += ["namespaces", namespace]
        parts += [self.plural, *([name] if name else []), *([sub] if sub else [])]
        return "/" + "/".join(quote(part, safe="") for part in parts)


POD = Kind("", "v1", "Pod", "pods")
SERVICE = Kind("", "v1", "Service", "services")
SECRET = Kind("", "v1", "Secret", "secrets")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
EVENT = Kind("", "v1", "Event", "events")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
JOB = Kind("batch", "v1", "Job", "jobs")
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets")
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
JOB_SET = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
WORKLOAD = Kind("kueue.x-k8s.io", "v1beta2", "Workload", "workloads")
LOCAL_QUEUE = Kind("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues")
CLUSTER_QUEUE = Kind("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
RESOURCE_FLAVOR = Kind("kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors", namespaced=False)
TOPOLOGY = Kind("kueue.x-k8s.io", "v1beta2", "Topology", "topologies", namespaced=False)
WORKLOAD_PRIORITY_CLASS = Kind(
    "kueue.x-k8s.io", "v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False
)
CUSTOM_RESOURCE = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)

KNOWN = (
    POD, SERVICE, SECRET, CONFIG_MAP, SERVICE_ACCOUNT, EVENT, NODE, NAMESPACE, JOB, CRON_JOB, DEPLOYMENT, DAEMON_SET,
    PRIORITY_CLASS, JOB_SET, WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR, TOPOLOGY,
    WORKLOAD_PRIORITY_CLASS, CUSTOM_RESOURCE, ACCESS_REVIEW,
)  # fmt: skip


def known_kind(api_version: str, name: str) -> Kind | None:
    """Returns the kind that an object's `apiVersion` and `kind` name, if it is one of ours."""
    return next((kind for kind in KNOWN if (kind.api_version, kind.name) == (api_version, name)), None)


def selector(labels: Mapping[str, str] | str | None) -> str:
    """Returns labels (or a selector that is written out already) as the API takes them."""
    if labels is None or isinstance(labels, str):
        return labels or ""
    return ",".join(f"{key}={value}" for key, value in labels.items())
