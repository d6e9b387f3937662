"""What a run may be called, and what one is called that nobody named: the command and Prefect's flow agree on both."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import PurePosixPath

from runtime.contract.errors import BadInput

_RUN_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_OF_A_CLUSTER = re.compile(r"cluster-[a-z0-9-]{1,40}_[a-z0-9-]{1,64}")
"""No run can be called so."""
_LONGEST_STEM = 37
"""Letters that a name has left for its suite beside time and suffix."""


def checked_run_id(run_id: str) -> str:
    """Returns it; raises BadInput for what folders, labels and machines cannot all be named after."""
    if not _RUN_ID.fullmatch(run_id):
        raise BadInput(
            f"{run_id!r} cannot be the name of a run",
            fix="use up to 63 of a-z, 0-9 and -, no - at either end",
        )
    return run_id


def checked_lease_name(name: str) -> str:
    """Returns the name of a lease that a run may use again: of an earlier run, or of a cluster. Raises BadInput."""
    return name if _OF_A_CLUSTER.fullmatch(name) else checked_run_id(name)


def suite_stem(suite: str) -> str:
    """Returns a suite's or target's name without folders and ending."""
    return PurePosixPath(suite).name.removesuffix(".yaml").removesuffix(".yml")


def run_id_for(suite: str, at: datetime, suffix: str) -> str:
    """Returns a name that says what ran and sorts by time; `suffix`, of up to 8 letters, makes it the only one."""
    plain = re.sub(r"[^a-z0-9]+", "-", suite_stem(suite).lower()).strip("-")
    stem = plain[:_LONGEST_STEM].strip("-") or "run"
    return f"{stem}-{at.astimezone(UTC):%Y%m%d-%H%M%S}-{suffix}"
