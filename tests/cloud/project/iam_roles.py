"""What Google's roles let one do, of what the stand-in's calls ask for; from the reference of roles, 2026-08.

A role has many more permissions, which nothing here asks for. Patterns as the reference has them.
"""

from __future__ import annotations

from collections.abc import Mapping

_SEEN_IN_COMPUTE = (
    "compute.firewalls.get", "compute.firewalls.list", "compute.networks.get", "compute.regions.get",
    "compute.routers.get", "compute.routers.list", "compute.subnetworks.get", "serviceusage.services.get",
    "serviceusage.services.list",
)  # fmt: skip
_MACHINES = ("compute.instanceGroupManagers.get", "compute.machineTypes.get")
_OPERATIONS = ("compute.globalOperations.get", "compute.regionOperations.get")

OF_ROLES: Mapping[str, tuple[str, ...]] = {
    "roles/owner": ("*",),  # but for what NOT_OF_OWNERS says
    "roles/serviceusage.serviceUsageAdmin": ("serviceusage.operations.*", "serviceusage.services.*"),
    "roles/compute.networkAdmin": (
        *_SEEN_IN_COMPUTE, *_OPERATIONS, *_MACHINES, "compute.networks.*", "compute.routers.*",
        "compute.subnetworks.*",
    ),
    "roles/compute.networkUser": (*_SEEN_IN_COMPUTE, "compute.networks.use", "compute.subnetworks.use"),
    "roles/compute.securityAdmin": (
        *_SEEN_IN_COMPUTE, *_OPERATIONS, "compute.firewalls.*", "compute.networks.updatePolicy",
    ),
    "roles/compute.viewer": (
        *_SEEN_IN_COMPUTE, *_OPERATIONS, *_MACHINES, "compute.reservations.get",
        "compute.resourcePolicies.get", "compute.resourcePolicies.list",
    ),
    "roles/compute.instanceAdmin.v1": (
        *_SEEN_IN_COMPUTE, *_OPERATIONS, *_MACHINES, "compute.reservations.get",
        "compute.resourcePolicies.*", "compute.subnetworks.use",
    ),
    "roles/iam.serviceAccountAdmin": (
        *(
            f"iam.serviceAccounts.{verb}"
            for verb in (
                "create", "delete", "disable", "enable", "get", "getIamPolicy", "list", "setIamPolicy", "undelete",
                "update",
            )
        ),
    ),
    "roles/iam.serviceAccountUser": (
        "iam.serviceAccounts.actAs", "iam.serviceAccounts.get", "iam.serviceAccounts.list",
    ),
    "roles/iam.serviceAccountTokenCreator": (
        "iam.serviceAccounts.get", "iam.serviceAccounts.getAccessToken", "iam.serviceAccounts.list",
    ),
    "roles/resourcemanager.projectIamAdmin": (
        "resourcemanager.projects.getIamPolicy", "resourcemanager.projects.setIamPolicy",
    ),
    "roles/storage.admin": ("storage.buckets.*", "storage.objects.*"),
    "roles/artifactregistry.admin": ("artifactregistry.repositories.*",),
    "roles/aiplatform.user": ("aiplatform.tensorboards.*",),
    "roles/container.admin": ("container.*",),
    "roles/container.clusterAdmin": (
        *(f"container.clusters.{verb}" for verb in ("create", "delete", "get", "list", "update")),
        "container.operations.get", "container.operations.list",
    ),
}  # fmt: skip

NOT_OF_OWNERS = ("iam.serviceAccounts.getAccessToken",)
"""Owners may make accounts, and give them roles; to act as one they have to be given that."""
