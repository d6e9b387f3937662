"""GKE's errors, told apart by what the caller does next.

ContainerError          (InfrastructureError)
├── NotFound            it is not there; only ever from NOT_FOUND
├── PermissionDenied    a person must grant something, or log in
│   └── Disabled        the API is not enabled in the project: nothing can be there
├── BadLocation         there is no such region or zone, or not for this project
├── Refused             the request is wrong: the same one will never be taken
├── AlreadyExists       look whose it is
├── Busy                another operation is under way on the cluster: wait, ask again
├── QuotaExhausted      another project, type or capacity; or delete something
├── ReservationShort    the reservation is not there, or has no room: another one
├── StockedOut          another zone, another capacity, or wait
├── Broken              it was made, and is not what was asked for: give it back
└── Unavailable         it may have happened: look, then ask again
    ├── Unanswered      nobody knows whether it happened: what has no name of its own is not made once more
    └── Throttled       it did not happen: wait, ask again
"""

from __future__ import annotations

import re

from runtime.contract.errors import InfrastructureError
from tasks.cloud.google_calls import NotAllowed, NotEnabled
from tasks.cloud.google_login import NoLogin
from tasks.cloud.google_roles import role_for, way_in


class ContainerError(InfrastructureError):
    """GKE's API answered with an error, or an operation ended with one."""


class NotFound(ContainerError):
    """It is not there."""


class PermissionDenied(ContainerError, NotAllowed):
    """The caller may not, or is nobody."""


class Nobody(PermissionDenied, NoLogin):
    """The caller is nobody: there is no login, or one that is over."""


class Disabled(PermissionDenied, NotEnabled):
    """The API is not enabled in the project."""


class BadLocation(ContainerError):
    """There is no such region or zone."""


class Refused(ContainerError):
    """The service calls the request wrong."""


class AlreadyExists(ContainerError):
    """The name is taken."""


class Busy(ContainerError):
    """Another operation is under way on the cluster."""


class QuotaExhausted(ContainerError):
    """The project may not have more of these."""

    trouble = "quota"


class ReservationShort(ContainerError):
    """The reservation is not there, or is used up."""


class StockedOut(ContainerError):
    """The zone has none left."""

    trouble = "stockout"


class Broken(ContainerError):
    """It is there, and is not whole."""


class Unavailable(ContainerError):
    """No answer, or none that tells whether it happened."""


class Unanswered(Unavailable):
    """No answer at all."""


class Throttled(Unavailable):
    """Too many requests: this one was not carried out."""


_BY_CODE: dict[int, type[ContainerError]] = {
    1: Unavailable,  # CANCELLED
    2: Unavailable,  # UNKNOWN
    3: Refused,  # INVALID_ARGUMENT
    4: Unavailable,  # DEADLINE_EXCEEDED
    5: NotFound,
    6: AlreadyExists,
    7: PermissionDenied,
    8: Throttled,  # RESOURCE_EXHAUSTED, of which neither quota nor stock is said to be the cause
    9: Refused,  # FAILED_PRECONDITION, of which no operation is said to be the cause
    10: Busy,  # ABORTED
    11: Refused,  # OUT_OF_RANGE
    12: Refused,  # UNIMPLEMENTED
    13: Unavailable,  # INTERNAL
    14: Unavailable,
    15: Unavailable,  # DATA_LOSS
    16: Nobody,  # UNAUTHENTICATED
}

# One code stands for several things, and texts are reworded: a word of each is looked for, in this order.
_BY_WORDS: tuple[tuple[re.Pattern[str], type[ContainerError], frozenset[int]], ...] = tuple(
    (re.compile(words, re.IGNORECASE), kind, frozenset(codes))
    for words, kind, codes in (
        (r"has not been used in project|it is disabled", Disabled, {7}),
        (r"on 'locations/[^']*' \(or it may not exist\)", BadLocation, {7}),
        (r"too many operations|concurrent operations", Busy, {8, 9}),
        (r"incompatible operation|already_has_operation|try again once it is done", Busy, {3, 9}),
        (r"fingerprint", Busy, {3, 9, 10}),
        (r"reserved capacity|reservation .*(not exist|not found)", ReservationShort, {3, 5, 8, 9, 13}),
        (
            r"stockout|resource_pool_exhausted|not have enough resources|lack of capacity|no more capacity",
            StockedOut,
            {3, 8, 9, 13, 14},
        ),
        (r"per minute|rate limit|too many requests|queries per", Throttled, {8}),
        (r"\bquota\b", QuotaExhausted, {3, 7, 8, 9, 13}),
    )
)

_ADVICE: dict[type[ContainerError], str] = {
    PermissionDenied: ": {way_in}",
    Disabled: ": gcloud services enable {api}.googleapis.com",
    BadLocation: ": see gcloud compute zones list; the project may have to be allowed to use it",
    QuotaExhausted: ": delete what is no longer used, ask for more quota, or use another type, capacity or region",
    ReservationShort: ": see gcloud compute reservations list, name another one, or use another capacity",
    StockedOut: ": use another zone or another capacity (reservation, flex_start), or try again later",
}


def error_for(code: int, message: str, doing: str, api: str = "container", role: str = "") -> ContainerError:
    """Returns the error that a status (google.rpc.Code) stands for; `doing` says what was tried, on which API.

    `role` is what lets one do that; empty: the API's usual one.
    """
    kind = _BY_CODE.get(code, Unavailable)
    for words, meant, codes in _BY_WORDS:
        if code in codes and words.search(message):
            kind = meant
            break
    advice = _ADVICE.get(kind, "").format(api=api, way_in=way_in(message, api, role or role_for(api)))
    return kind(f"cannot {doing}: {message.strip() or kind.__doc__}{advice}")


def error_of_operation(
    code: int, message: str, doing: str, api: str = "container", role: str = ""
) -> ContainerError:
    """Returns the error with which an operation ended: it was carried out, so that it is known to have failed."""
    error = error_for(code, message, doing, api, role)
    if isinstance(error, Unavailable | Busy | NotFound | AlreadyExists):
        return Broken(str(error))
    return error
