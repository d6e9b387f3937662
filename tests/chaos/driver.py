"""Plays a whole run on this machine in a forked process, and pulls its plug at one exact mutating call."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from flows.patience import undisturbed
from flows.signals import answered
from runtime.contract.errors import ExitCode, SlicebenchError
from tasks.cloud.storage import Folder, open_folder
from tasks.config.home import ledger_uri, scratch_folder
from tasks.leases.claim import claim
from tasks.leases.inventory import open_inventories
from tasks.leases.lease import Lease
from tasks.leases.ledger import Ledger, Listing
from tasks.leases.opening import open_ledger
from tasks.stages.context import Run
from tasks.stages.provision import provision
from tasks.stages.run import run_workload
from tasks.stages.teardown import teardown
from tasks.stages.upload import upload
from tasks.targets.local import LocalTarget, spawn_session
from tasks.targets.types import Progress
from tests.slowness import slowness
from tests.tasks.targets.local_runs import IMAGE, spec, standin

Made = TypeVar("Made")

PROMISED_S = 15.0
"""From `reap` to nothing left, at most, on a machine of normal speed."""

PATIENCE_S = 300.0
"""For what a test waits for before it pulls the plug."""


def took_s(began: float) -> float:
    """Returns the seconds since `began` (of time.monotonic), as they were on a machine of normal speed.

    To be asked at once: how slow a machine is changes with what else it does.
    """
    return (time.monotonic() - began) / slowness(time.perf_counter)


def soon_enough(took: Sequence[float]) -> bool:
    """Whether the reaper kept its promise in every case; `took` as `took_s` tells them."""
    return max(took) < PROMISED_S


def sample(
    moments: list[tuple[int, str]], also: str | None = None, seed: int | None = None
) -> list[tuple[int, str]]:
    """Returns $CHAOS_SAMPLE moments, in order, others with each seed of the tests; all when it is not set.

    The first of name `also` is always among them. `seed`: for who asks before a test began, which is when that of the
    tests is set.
    """
    share = int(os.environ.get("CHAOS_SAMPLE", len(moments)))
    draw = random if seed is None else random.Random(seed)
    chosen = draw.sample(moments, min(share, len(moments)))
    wanted = [moment for moment in moments if moment[1] == also][:1]
    assert also is None or wanted, f"there is no moment {also!r}"
    return sorted({*chosen, *wanted})


@dataclass
class Plug:
    """Counts moments, two for each mutating call: before it and after it. At moment `at` this process gets a signal."""

    at: int | None
    number: signal.Signals = signal.SIGKILL
    seen: list[str] = field(default_factory=list)

    def around(self, what: str, call: Callable[[], Made]) -> Made:
        self._moment(f"before {what}")
        made = call()
        self._moment(f"after {what}")
        return made

    def _moment(self, name: str) -> None:
        self.seen.append(name)
        if self.at == len(self.seen) - 1:
            os.kill(os.getpid(), self.number)


@dataclass
class PluggedLedger:
    """A ledger whose writes are mutating calls, but for renewals: how many there are is a matter of time alone."""

    inner: Ledger
    plug: Plug
    written: dict[str, Lease] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def id(self) -> str:
        return self.inner.id

    def exists(self) -> bool:
        return self.inner.exists()

    def read(self, lease_id: str) -> Lease | None:
        return self.inner.read(lease_id)

    def write(self, lease: Lease) -> Lease:
        last = self.written.get(lease.lease_id)
        self.written[lease.lease_id] = lease
        if last is not None and last == replace(
            lease, renewed_at=last.renewed_at, expires_at=last.expires_at, generation=last.generation
        ):
            return self.inner.write(lease)
        return self.plug.around(
            f"ledger {lease.state} of {len(lease.resources)}", lambda: self.inner.write(lease)
        )

    def remove(self, lease: Lease) -> None:
        self.plug.around(f"ledger without {lease.state}", lambda: self.inner.remove(lease))

    def listing(self) -> Listing:
        return self.inner.listing()


@dataclass
class PluggedFolder:
    """A run's folder whose writes and deletions are mutating calls."""

    inner: Folder
    plug: Plug

    @property
    def uri(self) -> str:
        return self.inner.uri

    def read(self, name: str, start: int = 0) -> bytes | None:
        return self.inner.read(name, start)

    def write(self, name: str, content: bytes) -> None:
        self.plug.around(f"write {name}", lambda: self.inner.write(name, content))

    def create(self, name: str, content: bytes) -> bool:
        return self.plug.around(f"create {name}", lambda: self.inner.create(name, content))

    def names(self, prefix: str = "") -> Iterator[str]:
        return self.inner.names(prefix)

    def folders(self) -> Iterator[str]:
        return self.inner.folders()

    def delete(self, name: str) -> None:
        self.plug.around(f"delete {name}", lambda: self.inner.delete(name))

    def child(self, name: str) -> Folder:
        return PluggedFolder(self.inner.child(name), self.plug)

    def upload(self, source: str, name: str) -> None:
        self.plug.around(f"upload {name}", lambda: self.inner.upload(source, name))


def play(output: Path, run_id: str, plug: Plug, workload: str = "wait") -> None:
    """Plays all stages, and answers SIGINT and SIGTERM as a run does.

    A workload that waits is let go once it is followed: until then it waits for ever.
    """

    def spawn(command: Sequence[str], folder: Path, more: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return plug.around("spawn", lambda: spawn_session(command, folder, more))

    def let_go(progress: Progress) -> None:
        for scratch in (output / run_id / "scratch").iterdir():
            (scratch / "go").touch()

    run_spec = spec(output, run_id=run_id, workload=workload)
    target = LocalTarget(run_spec.target, scratch_folder(), supervisor=standin, spawn=spawn)
    run = Run(run_spec, PluggedFolder(open_folder(f"{output}/{run_id}"), plug), target, lambda line: None)
    ledger = PluggedLedger(open_ledger(ledger_uri()), plug)
    with answered((signal.SIGINT, signal.SIGTERM), stop):
        holding = claim(ledger, open_inventories(ledger, scratch_folder()), run_id, run_id)
        try:
            uploaded = upload(run, provision(run, holding), IMAGE)
            on_progress = let_go if workload == "wait" else (lambda progress: None)
            run_workload(run, uploaded, holding, on_progress)
        finally:
            with undisturbed(run.say):
                teardown(run, holding)


class Stopped(BaseException):
    """What a signal raises within a run: Python's KeyboardInterrupt and Prefect's are no Exceptions either."""


def stop(number: signal.Signals) -> None:
    raise Stopped(number.name)


def outcome(play_it: Callable[[], object]) -> int:
    """Plays this in a forked process and waits for its end: its exit code, or the signal that ended it, negative."""
    return os.waitstatus_to_exitcode(os.waitpid(fork_and_play(play_it), 0)[1])


def fork_and_play(play_it: Callable[[], object]) -> int:
    """Runs this in a forked process; returns its pid. It exits with the exit code of its error, or 99; stopped, 130."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        play_it()
        code = 0
    except SlicebenchError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        code = int(error.exit_code)
    except Stopped:
        code = int(ExitCode.INTERRUPTED)
    except BaseException:  # noqa: BLE001 (the fork must never return into pytest)
        traceback.print_exc()
    finally:
        os._exit(code)
