"""What supervisors of one attempt are told: the same to all, but for who each is and where its things lie."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.contract.job import Job, Owner
from tasks.targets.types import Uploaded


@dataclass(frozen=True)
class Seat:
    """Where one worker finds and leaves its things: paths on its machine. `env`: variables of its own, under the run's.

    `owner`: the process without which it ends, where that is one of the same machine.
    """

    suite: str
    code: str
    output: str
    scratch: str
    python: str
    renewal_file: str
    local_directory: str | None
    env: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None


def jobs(
    uploaded: Uploaded, attempt: int, lease_id: str, rendezvous: str, lease_s: float, seats: Sequence[Seat]
) -> list[Job]:
    """Returns the job of each worker, in order. `rendezvous`: HOST:PORT at which the first one listens."""
    workload, workers = uploaded.workload, uploaded.workers
    token = secrets.token_hex(16)
    return [
        Job(
            run_id=workload.run_id,
            lease_id=lease_id,
            attempt=attempt,
            worker=worker.index,
            workers=len(workers.items),
            slice_index=worker.slice_index,
            rendezvous=rendezvous,
            token=token,
            suite=seat.suite,
            code=seat.code,
            output=seat.output,
            scratch=seat.scratch,
            python=seat.python,
            platform=workers.platform,
            devices_per_worker=workers.devices_per_worker,
            env={**seat.env, **workload.env},
            deadlines=workload.deadlines,
            renewal_file=seat.renewal_file,
            lease_s=lease_s,
            owner=seat.owner,
            debug_dumps=workload.debug_dumps,
            points=workload.points,
            local_directory=seat.local_directory,
            restart=workload.restart,
            sidecar=workload.sidecar,
        )
        for worker, seat in zip(workers.items, seats, strict=True)
    ]
