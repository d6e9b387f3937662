"""RunSpec: a RunRequest resolved and validated, with everything that stages need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.contract.errors import Problem
from runtime.contract.job import Deadlines
from runtime.contract.suite import Point
from tasks.config.request import Keep
from tasks.config.target import TargetConfig


@dataclass(frozen=True)
class SourceSpec:
    """What code is measured. `repo` None: the released Orbax of the lock; a path: the tree as it lies there.

    At most one of branch, pr, commit. No password or token is in here.
    """

    repo: str | None = None
    branch: str | None = None
    pr: int | None = None
    commit: str | None = None
    jax_version: str = "locked"
    jax_index: str | None = None


@dataclass(frozen=True)
class RunSpec:
    """One run. `suite_text` is the effective suite (overrides applied), `suite_path` where the user keeps it.
    `points` are those that fit the target, numbered as the workers number them; `left_out` says which do not, and why.

    `partial`: they are not all that the suite describes, for somebody chose some.

    `history` is where its numbers are added, empty: nowhere.

    `keep_for_s` is how long what is kept may stay, in seconds. `lease` names the lease of an earlier run whose kept
    hardware is used. `wait_for_lock_s` is how long to wait for hardware that another run uses.

    `stop_after_checkpoints`: the workload is deleted once so many are complete, and started again.

    `local_directory` is a folder on each worker's host. `skip_preflight`: the target is not looked over.

    `env` holds the values; `secret_env` names those of them that may never be written down.
    """

    run_id: str
    suite_name: str
    suite_path: str
    suite_text: str
    points: Sequence[Point]
    num_repeats: int
    target_name: str
    target: TargetConfig
    source: SourceSpec
    output: str
    keep: Keep
    deadlines: Deadlines
    history: str = ""
    partial: bool = False
    keep_for_s: float = 0.0
    lease: str | None = None
    wait_for_lock_s: float = 0.0
    stop_after_checkpoints: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: frozenset[str] = frozenset()
    local_directory: str | None = None
    skip_preflight: bool = False
    debug_dumps: bool = False
    warnings: Sequence[Problem] = ()
    left_out: Sequence[Problem] = ()

    @property
    def told_left_out(self) -> list[str]:
        """Returns what does not fit the target, and why, a line for each reason."""
        return [f"{problem.what}: {problem.why}" for problem in self.left_out]

    @property
    def lease_name(self) -> str:
        """Returns the name of the lease that the run's hardware stands under, after which it is named."""
        return self.lease or self.run_id
