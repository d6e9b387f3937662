"""What GKE says, and what is to be done about it: judged by code and a word of each text, whatever the rest says."""

from __future__ import annotations

import pytest

from tasks.cloud.container_errors import (
    AlreadyExists,
    BadLocation,
    Broken,
    Busy,
    ContainerError,
    Disabled,
    Nobody,
    NotFound,
    PermissionDenied,
    QuotaExhausted,
    Refused,
    ReservationShort,
    StockedOut,
    Throttled,
    Unavailable,
    error_for,
    error_of_operation,
)

SAID: list[tuple[int, str, type[ContainerError]]] = [
    (6, "Already exists: projects/p/locations/l/clusters/c.", AlreadyExists),
    (5, "Not found: projects/p/locations/l/clusters/c.", NotFound),
    (7, 'Required "container.clusters.create" permission(s) for "projects/p".', PermissionDenied),
    (
        7,
        "Kubernetes Engine API has not been used in project p before or it is disabled. Enable it by visiting https://x",
        Disabled,
    ),
    (16, "Request had invalid authentication credentials.", Nobody),
    (7, "Permission denied on 'locations/us-west9' (or it may not exist).", BadLocation),
    (
        7,
        "Insufficient regional quota to satisfy request: resource \"CPUS\": request requires '72.0' and is short "
        "'48.0'. project has a quota of '24.0' with '24.0' available. View and manage quotas at https://x",
        QuotaExhausted,
    ),
    (7, "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 0.0 in region us-east5.", QuotaExhausted),
    (8, "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'", Throttled),
    (9, "Cluster is running incompatible operation operation-1-2.", Busy),
    (
        9,
        "Operation operation-1 is currently creating a node pool for cluster x. Please wait and try again once it is "
        "done.",
        Busy,
    ),
    (
        8,
        'Too many operations: cluster "x" hits the concurrent operations quota 5, please try again later.',
        Busy,
    ),
    (9, "Cannot delete: deletion protection is enabled.", Refused),
    (3, 'Invalid machine type "e2-standard-4" in zone "us-central2-b": GCE_NOT_FOUND', Refused),
    (3, "Specified reservation 'r' does not exist.", ReservationShort),
    (14, "Socket closed", Unavailable),
    (13, "An internal error has occurred", Unavailable),
    (4, "Deadline Exceeded", Unavailable),
]


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Required 'compute.networks.create' permission for 'projects/p/global/networks/n'", "grant R"),
        ('Required "container.clusters.create" permission(s) for "projects/p".', "grant R"),
        (
            "Permission 'artifactregistry.repositories.create' denied on resource '//x' (or it may not exist).",
            "grant R",
        ),
        (
            "The caller does not have permission",
            "log in (gcloud auth application-default login), enable container.googleapis.com, or grant R",
        ),
    ],
)
def test_where_the_permission_is_named_a_role_alone_is_advised(message: str, advice: str) -> None:
    assert str(error_for(7, message, "do it", role="R")) == f"cannot do it: {message}: {advice}"


@pytest.mark.parametrize(("code", "message", "kind"), SAID)
def test_each_text_asks_for_one_answer(code: int, message: str, kind: type[ContainerError]) -> None:
    error = error_for(code, message, "make cluster x")
    assert type(error) is kind
    assert str(error).startswith(f"cannot make cluster x: {message}")


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (
            8,
            "[GCE_STOCKOUT]: Instance 'i' creation failed: The zone 'z' does not have enough resources available to "
            "fulfill the request. Try a different zone, or try again later.",
            StockedOut,
        ),
        (13, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", StockedOut),
        (3, "Insufficient reserved capacity. Contact customer support to increase it.", ReservationShort),
        (8, "Quota 'TPUS_PER_TPU_FAMILY' exceeded. Limit: 0.0 in region r.", QuotaExhausted),
        (13, "Only 3 nodes out of 4 have registered; this is likely due to nodes failing to start.", Broken),
        (0, "something went wrong", Broken),
    ],
)
def test_an_operation_that_failed_is_known_to_have(
    code: int, message: str, kind: type[ContainerError]
) -> None:
    assert type(error_of_operation(code, message, "make node pool np-0")) is kind


def test_the_next_step_is_told() -> None:
    assert "use another zone or another capacity" in str(error_for(8, "stockout", "x"))
    assert "roles/container.admin" in str(error_for(7, "no", "x"))
