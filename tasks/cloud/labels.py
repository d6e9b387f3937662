"""The one place that makes labels: what every resource with labels carries, and how a lease is read back from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from runtime.contract.errors import BadInput

LEASE = "slicebench-lease"
LEASE_REST = "slicebench-lease-rest"
"""What of the lease id is beyond the 63 characters that a label value takes."""
LEDGER = "slicebench-ledger"
OWNER = "slicebench-owner"
EXPIRES = "slicebench-expires"
SUBMISSION = "slicebench-submission"
"""What was submitted by hand, without a lease: a word of its own for each, by which it is known again."""

_LONGEST = 63
_LEGAL = re.compile(r"[a-z0-9_-]*")


class Labelled(NamedTuple):
    """What labels tell: whose lease in which ledger. `expires_at` is the expiry when it was made, seconds."""

    lease_id: str
    ledger_id: str
    owner: str
    expires_at: float | None

    @property
    def lease_name(self) -> str:
        """The lease's name, which all its epochs have."""
        return self.lease_id.rpartition("-e")[0]


def labels_for(
    lease_id: str, ledger_id: str, owner: str = "", expires_at: float | None = None
) -> Mapping[str, str]:
    """Returns the labels of everything made under a lease: Google Cloud's rules, which Kubernetes' include.

    Lease and ledger are written so that they can be read back exactly; `owner` is for people, and loses what
    a label may not hold. Raises BadInput when the lease id cannot be written at all.
    """
    if not _LEGAL.fullmatch(lease_id) or not 0 < len(lease_id) <= 2 * _LONGEST or lease_id[0] in "-_":
        raise BadInput(
            f"the lease {lease_id!r} cannot be written into labels",
            fix=f"use a name of a-z, 0-9 and -, up to {2 * _LONGEST} characters",
        )
    if not _LEGAL.fullmatch(ledger_id) or len(ledger_id) > _LONGEST:
        raise BadInput(f"the ledger id {ledger_id!r} cannot be written into a label")
    head, rest = lease_id[:_LONGEST], lease_id[_LONGEST:]
    labels = {LEASE: head, LEDGER: ledger_id, OWNER: _legal(owner) or "unknown"}
    if rest:
        labels[LEASE_REST] = rest
    if expires_at is not None:
        labels[EXPIRES] = str(int(expires_at))
    return labels


def labels_by_hand(submission: str, owner: str) -> Mapping[str, str]:
    """Returns the labels of what somebody submits without a lease: it is theirs to delete."""
    return {SUBMISSION: submission, OWNER: _legal(owner) or "unknown"}


def read_labels(labels: Mapping[str, str]) -> Labelled | None:
    """Returns what the labels of a resource say, or None when slicebench did not make it."""
    lease, ledger = labels.get(LEASE), labels.get(LEDGER)
    if not lease or not ledger:
        return None
    expires = labels.get(EXPIRES, "")
    return Labelled(
        lease + labels.get(LEASE_REST, ""),
        ledger,
        labels.get(OWNER, ""),
        float(expires) if expires.isdigit() else None,
    )


def _legal(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:_LONGEST].strip("-_")
