"""Which kinds the API server knows: built-in ones, those of JobSet and Kueue, and what definitions add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Resource:
    """A kind under its group and version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    status: bool = True
    short: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    """Versions that are served too, deprecated."""
    custom: bool = False

    @property
    def qualified(self) -> str:
        """`plural.group`, as messages name it; also the key in the store."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """What objects say in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version


def _core(kind: str, plural: str, *short: str, **more: Any) -> Resource:
    return Resource("", "v1", kind, plural, short=short, **more)


_KUEUE = "kueue.x-k8s.io"


def _kueue(kind: str, plural: str, *short: str, **more: Any) -> Resource:
    return Resource(_KUEUE, "v1beta2", kind, plural, short=short, older=("v1beta1",), custom=True, **more)


BUILT_IN = (
    _core("Namespace", "namespaces", "ns", namespaced=False),
    _core("Node", "nodes", "no", namespaced=False),
    _core("Pod", "pods", "po"),
    _core("Service", "services", "svc"),
    _core("Secret", "secrets", status=False),
    _core("ConfigMap", "configmaps", "cm", status=False),
    _core("ServiceAccount", "serviceaccounts", "sa", status=False),
    _core("Event", "events", "ev", status=False),
    _core("PersistentVolume", "persistentvolumes", "pv", namespaced=False),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc"),
    Resource("batch", "v1", "Job", "jobs"),
    Resource("batch", "v1", "CronJob", "cronjobs", short=("cj",)),
    Resource("apps", "v1", "Deployment", "deployments", short=("deploy",)),
    Resource("apps", "v1", "DaemonSet", "daemonsets", short=("ds",)),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", short=("pdb",)),
    Resource(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        namespaced=False,
        status=False,
        short=("pc",),
    ),
    Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, status=False),
    Resource("rbac.authorization.k8s.io", "v1", "Role", "roles", status=False),
    Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", status=False),
    Resource(
        "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False, status=False
    ),
    Resource(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        namespaced=False,
        status=False,
    ),
    Resource("coordination.k8s.io", "v1", "Lease", "leases", status=False),
    Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", status=False),
    Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False),
    Resource("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas", namespaced=False),
    Resource(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        namespaced=False,
    ),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short=("crd",),
    ),
    Resource(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        namespaced=False,
        status=False,
    ),
    Resource(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
        status=False,
    ),
)

JOBSET = (Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", custom=True),)

KUEUE = (
    _kueue("Workload", "workloads", "wl"),
    _kueue("LocalQueue", "localqueues", "queue", "queues", "lq"),
    _kueue("ClusterQueue", "clusterqueues", "cq", namespaced=False),
    _kueue("ResourceFlavor", "resourceflavors", "flavor", "flavors", "rf", namespaced=False, status=False),
    _kueue("WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False, status=False),
    _kueue("Topology", "topologies", namespaced=False, status=False),
    _kueue("AdmissionCheck", "admissionchecks", namespaced=False),
    _kueue("Cohort", "cohorts", namespaced=False),
)


class Registry:
    """The kinds of one API server."""

    def __init__(self, *, jobset: bool = True, kueue: bool = True) -> None:
        """Starts with what is built in, and what is installed."""
        self.all: list[Resource] = [*BUILT_IN, *(JOBSET if jobset else ()), *(KUEUE if kueue else ())]

    def at(self, group: str, version: str, plural: str) -> Resource | None:
        """Returns the kind that a path names, also under an older version."""
        for one in self.all:
            if (one.group, one.plural) == (group, plural) and version in (one.version, *one.older):
                return one
        return None

    def named(self, qualified: str) -> Resource:
        """Returns the kind `plural.group`; KeyError where it is not served."""
        for one in self.all:
            if one.qualified == qualified:
                return one
        raise KeyError(qualified)

    def of_kind(self, group: str, kind: str) -> Resource | None:
        """Returns the kind that an owner reference names."""
        return next((one for one in self.all if (one.group, one.kind) == (group, kind)), None)

    def serves(self, qualified: str) -> bool:
        """Says whether a kind is served."""
        return any(one.qualified == qualified for one in self.all)

    def define(self, definition: dict[str, Any]) -> None:
        """Adds the kind of a CustomResourceDefinition; JobSet and Kueue keep the form that is known here."""
        spec = definition["spec"]
        names = spec["names"]
        known = [one for one in (*JOBSET, *KUEUE) if one.qualified == definition["metadata"]["name"]]
        versions = [one["name"] for one in spec["versions"] if one.get("served", True)]
        stored = next((one["name"] for one in spec["versions"] if one.get("storage")), versions[0])
        added = (
            known[0]
            if known
            else Resource(
                spec["group"],
                stored,
                names["kind"],
                names["plural"],
                namespaced=spec.get("scope", "Namespaced") == "Namespaced",
                status=any("status" in one.get("subresources", {}) for one in spec["versions"]),
                short=tuple(names.get("shortNames", ())),
                older=tuple(one for one in versions if one != stored),
                custom=True,
            )
        )
        if not self.serves(added.qualified):
            self.all.append(added)

    def forget(self, qualified: str) -> None:
        """Takes a kind away again."""
        self.all = [one for one in self.all if one.qualified != qualified]
