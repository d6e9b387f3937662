"""Cloud TPU's errors, told apart by what the caller does next.

TpuError                (InfrastructureError)
├── NotFound            it is not there; only ever from NOT_FOUND
├── PermissionDenied    a person must grant something, or log in
│   └── Disabled        the API is not enabled in the project: nothing can be there
├── Refused             the request is wrong: the same one will never be taken
├── Vanished            it was being made, and is gone, nobody says why: another zone
├── AlreadyExists       look whose it is
│   └── Going           what has the name is being deleted: wait, ask again
├── Busy                another operation is under way there: wait, ask again
├── QuotaExhausted      another project, type or tier; or delete something
├── StockedOut          another zone, or wait
└── Unavailable         nobody knows whether it happened: look, then ask again
    └── Throttled       it did not happen: wait, ask again
"""

from __future__ import annotations

import re

from runtime.contract.errors import InfrastructureError
from tasks.cloud.google_calls import NotAllowed, NotEnabled
from tasks.cloud.google_login import NoLogin
from tasks.cloud.google_roles import way_in


class TpuError(InfrastructureError):
    """Cloud TPU's API answered with an error."""


class NotFound(TpuError):
    """It is not there."""


class PermissionDenied(TpuError, NotAllowed):
    """The caller may not, or is nobody."""


class Nobody(PermissionDenied, NoLogin):
    """The caller is nobody: there is no login, or one that is over."""


class Disabled(PermissionDenied, NotEnabled):
    """The API is not enabled in the project."""


class Refused(TpuError):
    """The service calls the request wrong."""


class AlreadyExists(TpuError):
    """The name is taken."""


class Going(AlreadyExists):
    """The name is taken by something that is being deleted."""


class Vanished(TpuError):
    """It was being made, and is not there any more; no operation says why."""


class Busy(TpuError):
    """Its state does not allow it now: another operation is under way."""


class QuotaExhausted(TpuError):
    """The project may not have more of these."""

    trouble = "quota"


class StockedOut(TpuError):
    """The zone has none left."""

    trouble = "stockout"


class Unavailable(TpuError):
    """No answer, or none that tells whether it happened."""


class Throttled(Unavailable):
    """Too many requests: this one was not carried out."""


_OK, _NO_CAPACITY = 0, 8
_BY_CODE: dict[int, type[TpuError]] = {
    1: Unavailable,  # CANCELLED
    2: Unavailable,  # UNKNOWN
    3: Refused,  # INVALID_ARGUMENT
    4: Unavailable,  # DEADLINE_EXCEEDED
    5: NotFound,
    6: AlreadyExists,
    7: PermissionDenied,
    9: Busy,  # FAILED_PRECONDITION
    10: Busy,  # ABORTED
    11: Refused,  # OUT_OF_RANGE
    12: Refused,  # UNIMPLEMENTED
    13: Unavailable,  # INTERNAL
    14: Unavailable,
    15: Unavailable,  # DATA_LOSS
    16: Nobody,  # UNAUTHENTICATED
}
_STOCKOUT = re.compile(r"no more capacity|stockout|insufficient capacity|not enough resources", re.IGNORECASE)
_DISABLED = re.compile(r"has not been used in project|it is disabled")
_RATE = re.compile(r"per minute|rate limit|too many requests|queries per", re.IGNORECASE)


def error_for(code: int, message: str, doing: str) -> TpuError:
    """Returns the error that a status (google.rpc.Code) stands for; `doing` says what was tried."""
    kind = _BY_CODE.get(code, Unavailable)
    if code == _NO_CAPACITY:  # one code for three things that ask for different answers
        kind = (
            StockedOut
            if _STOCKOUT.search(message)
            else Throttled
            if _RATE.search(message)
            else QuotaExhausted
        )
    if kind is PermissionDenied and _DISABLED.search(message):
        kind = Disabled
    return kind(f"cannot {doing}: {message.strip() or kind.__doc__}{_advice(kind, message)}")


def _advice(kind: type[TpuError], message: str) -> str:
    return {
        PermissionDenied: f": {way_in(message, 'tpu', 'roles/tpu.admin')}",
        QuotaExhausted: ": delete what is no longer used (FAILED and SUSPENDED queued resources count), ask for "
        "more quota, or use another tier, type or zone",
        StockedOut: ": name more zones, wait in the queue (queued: true), or use another tier",
    }.get(kind, "")
