"""Statuses of Cloud TPU's API become errors by what the caller does next."""

from __future__ import annotations

import pytest

from tasks.cloud.tpu_errors import (
    Busy,
    NotFound,
    PermissionDenied,
    QuotaExhausted,
    StockedOut,
    Throttled,
    TpuError,
    Unavailable,
    error_for,
)

_STOCKOUT = (
    'There is no more capacity in the zone "us-east5-b"; you can try in another zone where Cloud TPU Nodes are '
    "offered [EID: 0x1]"
)
_QUOTA = "Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0 in region us-east5."
_RATE = (
    "Quota exceeded for quota metric 'Create requests' and limit 'Create requests per minute' of service tpu"
)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (8, _STOCKOUT, StockedOut),
        (8, _QUOTA, QuotaExhausted),
        (8, _RATE, Throttled),
        (7, "Permission 'tpu.nodes.create' denied", PermissionDenied),
        (5, "Resource 'x' was not found", NotFound),
        (9, "is not in state READY", Busy),
        (14, "Socket closed", Unavailable),
        (4, "Deadline Exceeded", Unavailable),
        (99, "?", Unavailable),
    ],
)
def test_kind_of_error(code: int, message: str, kind: type[TpuError]) -> None:
    error = error_for(code, message, "make n1")
    assert type(error) is kind
    assert str(error).startswith(f"cannot make n1: {message}")


def test_where_the_permission_is_named_a_role_alone_is_advised() -> None:
    told = str(error_for(7, "Permission 'tpu.nodes.create' denied", "make n1"))
    assert told == "cannot make n1: Permission 'tpu.nodes.create' denied: grant roles/tpu.admin"
    told = str(error_for(7, "Permission denied", "make n1"))
    assert told.endswith("enable tpu.googleapis.com, or grant roles/tpu.admin")


def test_only_not_found_is_not_found() -> None:
    assert [code for code in range(1, 17) if isinstance(error_for(code, "x", "y"), NotFound)] == [5]
