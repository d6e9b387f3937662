"""How GKE is asked to make, change and delete: a reply may get lost, and a cluster takes one operation at a time.

A create looks by exact name whose it is, a delete takes "gone" for done; whoever asks while another operation is
under way waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tasks.cloud.container_errors import AlreadyExists, Busy, ContainerError, NotFound, Throttled, Unavailable
from tasks.cloud.container_model import Cluster, Pool
from tasks.cloud.container_transport import told
from tasks.cloud.labels import LEASE, LEASE_REST, LEDGER
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried

Seen = TypeVar("Seen")
Made = TypeVar("Made", Cluster, Pool)


@dataclass(frozen=True)
class Asking:
    """Mutating calls, each of which may be made again. `busy_s`: how long to wait for another's operation, seconds."""

    timing: Timing
    busy_s: float

    def create(
        self,
        doing: str,
        ask: Callable[[float], Any],
        look: Callable[[], Made],
        labels: Mapping[str, str],
        making: Callable[[], str],
    ) -> tuple[Made, str]:
        """Returns what is made, and the operation that makes it: by `ask`, or by an earlier call of the same lease.

        `look` returns what is there under the name, `making` the newest operation that makes it (empty: none known).
        Raises AlreadyExists when it is somebody else's.
        """

        def once() -> tuple[Made, str]:
            for pause in pauses(self.timing, f"gke: {doing}"):
                try:
                    with told(doing, self.timing.try_s):
                        operation = ask(self.timing.try_s)
                except AlreadyExists as error:
                    there = _unless_missing(look)
                    if there is None:  # it went this moment
                        raise
                    return _ours(there, labels, error), making()
                except Unavailable as error:
                    there = None if isinstance(error, Throttled) else _unless_missing(look)
                    if there is not None:
                        return _ours(there, labels, error), making()
                    if pause is None:
                        raise
                    tried(str(error))
                    time.sleep(pause)
                else:
                    return look(), str(operation.name)
            raise AssertionError("the last pause is None")

        return self.until_free(once)

    def delete(self, doing: str, ask: Callable[[float], object], state: Callable[[], str]) -> None:
        """Asks something to go; what is gone or going is no error."""
        try:
            with told(doing, self.timing.try_s):
                ask(self.timing.try_s)
        except NotFound:
            return
        except (Busy, Unavailable):
            if _unless_missing(state) not in (None, "STOPPING"):
                raise

    def until_free(self, ask: Callable[[], Seen]) -> Seen:
        """Asks until no other operation is under way. Raises Busy when that takes too long."""
        deadline = time.monotonic() + self.busy_s
        pause = self.timing.first_pause_s
        while True:
            try:
                return ask()
            except Busy:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, self.timing.longest_pause_s)


def _ours(there: Made, labels: Mapping[str, str], error: ContainerError) -> Made:
    """Returns what is there if it is what we asked for, judged by lease and ledger; raises AlreadyExists else."""
    for key in (LEASE, LEASE_REST, LEDGER):
        if there.labels.get(key) != labels.get(key):
            whose = there.labels.get("slicebench-owner")
            by = f" by {whose}'s lease {there.labels.get(LEASE)}" if whose else ", and not by slicebench"
            raise AlreadyExists(
                f"{there.name} in {there.location} was made already{by} ({there.state}): choose another name"
            ) from error
    return there


def _unless_missing(look: Callable[[], Seen]) -> Seen | None:
    try:
        return look()
    except NotFound:
        return None
