"""What one supervisor is told: a target writes it as JSON (0600), `python -m runtime.supervise FILE` reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from runtime.contract.disruption import Restart
from runtime.contract.errors import BadInput
from runtime.contract.sidecar import Sidecar

LEASE_VARIABLE = "SLICEBENCH_LEASE"
"""Environment variable that labels every process made under a lease with its id, as labels do on a cloud."""

LEDGER_VARIABLE = "SLICEBENCH_LEDGER_ID"
"""… and with the id of the ledger the lease is written in: what another ledger made is not ours to judge."""

Platform = Literal["cpu", "gpu", "tpu"]


@dataclass(frozen=True)
class Deadlines:
    """Longest times in seconds. None: no limit. A suite's own `deadline_s` wins over `point_s`."""

    init_s: float | None = 300.0
    operation_s: float | None = 1800.0
    point_s: float | None = None
    run_s: float | None = None


@dataclass(frozen=True)
class Owner:
    """The process that a job on the same machine lives for: a pid means nothing without its start time.

    `started_at` is in seconds after boot, as `runtime.contract.process.started_at` tells it.
    """

    pid: int
    started_at: float


@dataclass(frozen=True)
class Job:
    """One worker of one attempt.

    `suite` and `code` are on the worker's host; `code` is the folder that holds the `runtime` package and
    goes on PYTHONPATH. `output` is the run's folder as the worker sees it: a path or gs://. `scratch` is
    this worker's own folder on its host, for the stream, the journal of samples and stack dumps.
    `rendezvous` is host:port where supervisor 0 listens for the others, and `token` is what they prove
    themselves with. `env` is set before the worker's Python starts. `renewal_file` is touched by the run;
    when the host's monotonic clock has seen no touch for `lease_s`, or `owner` is gone, the supervisor ends
    everything by itself. `points` are those of the suite to run, by number; None: all of them.
    `local_directory` is this worker's own, on its host, for local tiers of checkpoints. `restart`: where an attempt
    before this one was when it was taken away. `again`: the cluster may start all workers again by itself, so `attempt`
    is what supervisor 0 says: each start has one of its own. `sidecar`: what stands beside the worker.
    """

    run_id: str
    lease_id: str
    attempt: int
    worker: int
    workers: int
    slice_index: int
    rendezvous: str
    token: str
    suite: str
    code: str
    output: str
    scratch: str
    python: str
    platform: Platform
    devices_per_worker: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    grace_s: float = 5.0
    heartbeat_s: int = 10
    renewal_file: str | None = None
    lease_s: float = 60.0
    owner: Owner | None = None
    debug_dumps: bool = False
    points: Sequence[int] | None = None
    local_directory: str | None = None
    restart: Restart | None = None
    again: bool = False
    sidecar: Sidecar | None = None

    def runs(self, point: int) -> bool:
        """Says whether a point of the suite is to run."""
        return self.points is None or point in self.points

    def to_json(self) -> str:
        """Returns the job as JSON text. It holds the token: write it to a file of mode 0600 only."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def read(cls, path: Path) -> Job:
        """Reads a job file. Raises BadInput when it is not one of this version."""
        try:
            fields = json.loads(path.read_text())
            fields["deadlines"] = Deadlines(**fields["deadlines"])
            fields["owner"] = Owner(**fields["owner"]) if fields["owner"] else None
            fields["restart"] = Restart(**fields["restart"]) if fields.get("restart") else None
            fields["sidecar"] = Sidecar(**fields["sidecar"]) if fields.get("sidecar") else None
            fields["points"] = tuple(fields["points"]) if fields.get("points") is not None else None
            return cls(**fields)
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path} is not a job file of this version of slicebench: {error}") from error
