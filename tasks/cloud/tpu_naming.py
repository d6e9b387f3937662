"""Whose it is that has the name: what we asked for ourselves, another's, or something that is on its way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tasks.cloud.labels import LEASE, LEASE_REST, LEDGER
from tasks.cloud.tpu_errors import AlreadyExists, Going, TpuError
from tasks.cloud.tpu_model import Node, Queued

Made = TypeVar("Made", Node, Queued)


def ours(there: Made, labels: Mapping[str, str], error: TpuError) -> Made:
    """Returns what is there if it is what we asked for, judged by lease and ledger; raises AlreadyExists else.

    One of ours that is being deleted is none that we could use: Going.
    """
    if there.state == "DELETING":
        raise Going(f"{there.name} in {there.zone} is taken by one that is being deleted") from error
    for key in (LEASE, LEASE_REST, LEDGER):
        if there.labels.get(key) != labels.get(key):
            whose = there.labels.get("slicebench-owner")
            by = f" by {whose}'s lease {there.labels.get(LEASE)}" if whose else ", and not by slicebench"
            raise AlreadyExists(
                f"{there.name} in {there.zone} was made already{by} ({there.state}): choose another name, or use it "
                f"as it is (existing: {there.name})"
            ) from error
    return there
