"""Which permissions Google's methods ask of whoever calls them, by the names that the stand-in's calls have.

From the references of the APIs (2026-08). What a call asks of another thing than its own, such as `actAs` of the
account that nodes get, is in iam.py.
"""

from __future__ import annotations

from collections.abc import Mapping

OF_CALLS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "serviceusage": {
        "ListServices": ("serviceusage.services.get",),  # services.batchGet
        "EnableServices": ("serviceusage.services.enable",),
        "GetOperationOfProject": ("serviceusage.operations.get",),
    },
    "cloudresourcemanager": {
        "TestIamPermissions": (),
        "GetProjectPolicy": ("resourcemanager.projects.getIamPolicy",),
        "SetProjectPolicy": ("resourcemanager.projects.setIamPolicy",),
    },
    "compute": {
        "GetRegion": ("compute.regions.get",),
        "GetMachineType": ("compute.machineTypes.get",),
        "GetReservation": ("compute.reservations.get",),
        "GetInstanceGroupManager": ("compute.instanceGroupManagers.get",),
        "GetNetwork": ("compute.networks.get",),
        "InsertNetwork": ("compute.networks.create",),
        "DeleteNetwork": ("compute.networks.delete",),
        "GetSubnetwork": ("compute.subnetworks.get",),
        "GetIamPolicySubnetwork": ("compute.subnetworks.getIamPolicy",),
        "TestIamPermissionsSubnetwork": (),
        "InsertSubnetwork": ("compute.subnetworks.create", "compute.networks.updatePolicy"),
        "PatchSubnetwork": ("compute.subnetworks.get", "compute.subnetworks.update"),
        "DeleteSubnetwork": ("compute.subnetworks.delete", "compute.networks.updatePolicy"),
        "ExpandIpCidrRangeSubnetwork": ("compute.subnetworks.expandIpCidrRange",),
        "SetPrivateIpGoogleAccessSubnetwork": ("compute.subnetworks.setPrivateIpGoogleAccess",),
        "GetRouter": ("compute.routers.get",),
        "ListRouter": ("compute.routers.list",),
        "InsertRouter": ("compute.routers.create", "compute.networks.updatePolicy"),
        "PatchRouter": ("compute.routers.get", "compute.routers.update"),
        "DeleteRouter": ("compute.routers.delete", "compute.networks.updatePolicy"),
        "GetFirewall": ("compute.firewalls.get",),
        "ListFirewall": ("compute.firewalls.list",),
        "InsertFirewall": ("compute.firewalls.create", "compute.networks.updatePolicy"),
        "PatchFirewall": (
            "compute.firewalls.get",
            "compute.firewalls.update",
            "compute.networks.updatePolicy",
        ),
        "DeleteFirewall": ("compute.firewalls.delete", "compute.networks.updatePolicy"),
        "AggregatedListResourcePolicies": ("compute.resourcePolicies.list",),
        "GetResourcePolicy": ("compute.resourcePolicies.get",),
        "InsertResourcePolicy": ("compute.resourcePolicies.create",),
        "DeleteResourcePolicy": ("compute.resourcePolicies.delete",),
        "global/operations": ("compute.globalOperations.get",),
        "regions/operations": ("compute.regionOperations.get",),
    },
    "iam": {
        "GetServiceAccount": ("iam.serviceAccounts.get",),
        "CreateServiceAccount": ("iam.serviceAccounts.create",),
        "PatchServiceAccount": ("iam.serviceAccounts.get", "iam.serviceAccounts.update"),
        "DeleteServiceAccount": ("iam.serviceAccounts.delete",),
        "EnableServiceAccount": ("iam.serviceAccounts.enable",),
        "DisableServiceAccount": ("iam.serviceAccounts.disable",),
        "UndeleteAccount": ("iam.serviceAccounts.undelete",),
        "ListServiceAccountKeys": ("iam.serviceAccountKeys.list",),
        "GetAccountPolicy": ("iam.serviceAccounts.getIamPolicy",),
        "SetAccountPolicy": ("iam.serviceAccounts.setIamPolicy",),
    },
    "storage": {
        "CreateBucket": ("storage.buckets.create",),
        "GetBucket": ("storage.buckets.get",),
        "PatchBucket": ("storage.buckets.get", "storage.buckets.update"),
        "DeleteBucket": ("storage.buckets.delete",),
        "GetBucketPolicy": ("storage.buckets.getIamPolicy",),
        "SetBucketPolicy": ("storage.buckets.setIamPolicy",),
        "CreateObject": ("storage.objects.create", "storage.objects.delete"),  # for one that is written over
        "GetObject": ("storage.objects.get",),
        "ListObject": ("storage.objects.list",),
        "DeleteObject": ("storage.objects.delete",),
    },
    "artifactregistry": {
        "GetRepository": ("artifactregistry.repositories.get",),
        "CreateRepository": ("artifactregistry.repositories.create",),
        "PatchRepository": ("artifactregistry.repositories.get", "artifactregistry.repositories.update"),
        "DeleteRepository": ("artifactregistry.repositories.delete",),
        "GetOperationOfProject": (),
    },
    "aiplatform": {
        "GetTensorboard": ("aiplatform.tensorboards.get",),
        "ListTensorboard": ("aiplatform.tensorboards.list",),
        "CreateTensorboard": ("aiplatform.tensorboards.create",),
        "PatchTensorboard": ("aiplatform.tensorboards.get", "aiplatform.tensorboards.update"),
        "DeleteTensorboard": ("aiplatform.tensorboards.delete",),
        "GetOperationOfProject": (),
    },
    "container": {
        "GetServerConfig": ("container.clusters.get",),
        "ListClusters": ("container.clusters.list",),
        "GetCluster": ("container.clusters.get",),
        "CreateCluster": ("container.clusters.create",),
        "DeleteCluster": ("container.clusters.delete",),
        "UpdateCluster": ("container.clusters.update",),
        "SetMaintenancePolicy": ("container.clusters.update",),
        "SetLabels": ("container.clusters.update",),
        "CreateNodePool": ("container.clusters.update",),
        "GetNodePool": ("container.clusters.get",),
        "ListNodePools": ("container.clusters.get",),
        "DeleteNodePool": ("container.clusters.update",),
        "SetNodePoolSize": ("container.clusters.update",),
        "SetNodePoolAutoscaling": ("container.clusters.update",),
        "SetNodePoolManagement": ("container.clusters.update",),
        "UpdateNodePool": ("container.clusters.update",),
        "GetOperation": ("container.operations.get",),
        "ListOperations": ("container.operations.list",),
        "CancelOperation": ("container.operations.cancel",),
    },
}
"""API → call → permissions, all of them."""
