"""What of an object depends on the UID that the server gives it."""

from __future__ import annotations

from typing import Any


def job_identity(obj: dict[str, Any]) -> None:
    """Fills in what depends on a Job's UID: its selector, and the labels of its pods."""
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec = obj["spec"]
    if not spec.get("manualSelector"):
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    meta = spec["template"].setdefault("metadata", {})
    meta["labels"] = {**labels, **(meta.get("labels") or {})}
