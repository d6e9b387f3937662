"""The core types that stages and targets hand to each other. Source: one place, so that data flows one way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from runtime.contract.disruption import Restart
from runtime.contract.errors import InfrastructureError, Problem, Trouble
from runtime.contract.job import Deadlines, Platform
from runtime.contract.progress import Body
from runtime.contract.sidecar import Sidecar
from runtime.contract.suite import Point
from tasks.leases.resource import ResourceRef as ResourceRef


@dataclass(frozen=True)
class Restarts:
    """How often a workload is started again after it failed, at `most`, and after which exit codes; None: any."""

    most: int = 0
    codes: frozenset[int] | None = None

    def after(self, code: int | None) -> bool:
        """Says whether it is started again after it ended with a code; None: nobody knows with which."""
        return bool(self.most) and code != 0 and (self.codes is None or code in self.codes)


@dataclass(frozen=True)
class Plan:
    """What a run would make and use.

    `price_per_hour` is in US dollars; None: not known, 0: costs nothing extra. `output` is where runs are
    written, `bytes_per_save` what the largest checkpoint of the suite takes, in bytes, over all workers. `points` are
    those of the suite that fit, numbered as the workers number them; `left_out` says which do not, and why.
    `keepable` are the kinds of what is made that may stay after the run when somebody asks for it. `locks` are
    (scope, name) of hardware that is there already and that one run at a time may use, and `lock_wait_s` how long to
    wait for it, in seconds. `attempts` is how often the workload is started at most, when the hardware is taken away
    under it, and `restarts` how often when it failed, which does not count there, nor the other here. `capacity` is
    how accelerators that are made are paid for, empty where none are, or none is chosen. `left_s`: the workload is
    left to itself once it is started, for so many seconds at most; None: it is followed. `left_alone_s`: the same where
    its machines were made for this run and no other has a hold on them; None: as long. `machine` is what is known of
    rented machines beforehand that numbers depend on: `target` (its kind), `type`, `topology` and `region`.
    """

    target: str
    resources: Sequence[ResourceRef]
    workers: int
    slices: int
    devices_per_worker: int
    platform: Platform
    price_per_hour: float | None = None
    warnings: Sequence[Problem] = ()
    output: str = ""
    bytes_per_save: int = 0
    points: Sequence[Point] = ()
    left_out: Sequence[Problem] = ()
    keepable: Sequence[str] = ()
    locks: Sequence[tuple[str, str]] = ()
    lock_wait_s: float = 0.0
    attempts: int = 1
    restarts: Restarts = Restarts()
    capacity: str = ""
    left_s: float | None = None
    left_alone_s: float | None = None
    machine: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Worker:
    """One host that a supervisor runs on; `address` is what its siblings reach it by."""

    index: int
    slice_index: int
    address: str


@dataclass(frozen=True)
class Workers:
    """The workers of a lease, in order, and the address of worker 0."""

    items: Sequence[Worker]
    coordinator: str
    devices_per_worker: int
    platform: Platform


@dataclass(frozen=True)
class Interpreter:
    """The Python that workers elsewhere will have: its version, and all that a venv depends on of it, as text.

    `platform` is as sysconfig names it: linux-x86_64.
    """

    version: str
    platform: str
    identity: str


@dataclass(frozen=True)
class Image:
    """What the workers run: a venv by its key, or (elsewhere) a container image by digest.

    `python` is the interpreter. `source` records repository, ref and the commit that was really built; `versions` the
    distributions that matter (jax, jaxlib, orbax-checkpoint, tensorstore, numpy, python).
    """

    kind: Literal["venv", "container"]
    reference: str
    python: str
    source: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    reused: bool = False


@dataclass(frozen=True)
class Workload:
    """What is to run on the workers. `output` is the run's folder: a path or gs://.

    `env` holds secrets: it is never written down but in a job's own file. `points` are those of the suite to run,
    by number; None: all. `local_directory` is a folder on each worker's host, for local tiers of checkpoints.
    `renewed`: supervisors hear that the run lives, and end where it does not.
    `restart`: where an attempt before this one was when it was taken away. `sidecar`: what stands beside each worker.
    """

    run_id: str
    output: str
    env: Mapping[str, str] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    debug_dumps: bool = False
    points: Sequence[int] | None = None
    local_directory: str | None = None
    renewed: bool = True
    restart: Restart | None = None
    sidecar: Sidecar | None = None


@dataclass(frozen=True)
class Bundle:
    """What goes to every worker: name in the bundle (`suite.yaml`, `code/…`) → file here; what is to run."""

    files: Mapping[str, str]
    workload: Workload


@dataclass(frozen=True)
class Uploaded:
    """Where the bundle lies as the workers see it, and everything else that `start` needs."""

    suite: str
    code: str
    workers: Workers
    image: Image
    workload: Workload


@dataclass(frozen=True)
class WorkloadRef:
    """A started workload; `scratch` is the folder of each worker, in order, as the target reads it.

    `output` is where workers write when that is not the run's own folder: `fetch` brings it there.
    """

    kind: str
    scope: str
    name: str
    uid: str
    attempt: int
    scratch: Sequence[str] = ()
    output: str = ""


@dataclass(frozen=True)
class LogLine:
    """One line a worker wrote. `cursor` lets a follower start again after it without losing or repeating a line.

    `body` is the supervisor's record that the line tells of, if it does.
    """

    worker: int
    cursor: int
    text: str
    body: Body | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SidecarLine:
    """One line of what stands beside a worker, where its target has that from somewhere else than from the worker's own
    supervisor. `cursor` is as a LogLine's, on its own.
    """

    worker: int
    cursor: int
    text: str


@dataclass(frozen=True)
class Progress:
    """A worker began or ended an operation of a point. `seq` is the cursor of the record it came from."""

    worker: int
    seq: int
    point: int
    points: int
    benchmark: str
    repeat: int
    operation: str
    phase: Literal["begin", "end"]


PREEMPTED = "preempted"
"""The State that says that the service took the hardware away: no failure, and reason for another attempt."""


@dataclass(frozen=True)
class State:
    """The workload's state changed; `evidence` is what was seen, for people."""

    state: str
    reason: str = ""
    evidence: str = ""


@dataclass(frozen=True)
class Exited:
    """A supervisor ended: its exit code, and the root cause in one line when it is not 0."""

    worker: int
    code: int
    cause: str = ""


Event = LogLine | SidecarLine | Progress | State | Exited


class WaitedTooLong(InfrastructureError):
    """A workload that never began was waited for as long as its target allows, or can never begin."""

    def __init__(self, message: str, trouble: Trouble = "waited") -> None:
        super().__init__(message)
        self.trouble = trouble


class NeverUp(InfrastructureError):
    """What has to be up before the workers begin will not be. The message has the last line that it said."""


RUNNING = "running"
"""In the place of its end: the attempt was left to itself, and goes on."""


@dataclass(frozen=True)
class Attempt:
    """One start of a workload and how it ended: 'succeeded', 'failed', 'preempted', 'lost', 'interrupted'."""

    n: int
    end: str
    cause: str = ""


@dataclass(frozen=True)
class Outcome:
    """How the run stage ended. `results` is where collect finds what the workers wrote."""

    attempts: Sequence[Attempt]
    results: str
