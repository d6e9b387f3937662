"""Waits for slices of Cloud TPU, in the queue and while they come up, and says on what, since when, until when."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import Going, NotFound, TpuError, error_for
from tasks.cloud.tpu_model import GONE_BUT_THERE, NEVER_ACTIVE, Node, Queued
from tasks.cloud.tpu_types import tpu_type
from tasks.config.tpu_target import TpuLimits

Say = Callable[[str], None]


class TakenAway(TpuError):
    """What was there is being taken away by the service: preempted, suspended, under repair."""


class TooLong(InfrastructureError):
    """A time limit of the target passed."""


@dataclass(frozen=True)
class Waiting:
    """On what one waits: its state, since when and until when, in seconds since the epoch."""

    what: str
    state: str
    since: float
    until: float | None

    def __str__(self) -> str:
        until = f", until {_clock(self.until, self.since)}" if self.until is not None else ""
        return f"{self.what} is {self.state} since {_clock(self.since)}{until}"


@dataclass
class Wait:
    """How one waits: within limits, looking every `poll_s` seconds; `check` raises when it is no longer for us to wait.

    `say` hears what is waited for, when that changes.
    """

    tpu: CloudTpu
    limits: TpuLimits
    check: Callable[[], object]
    say: Say
    poll_s: float
    now: Callable[[], float]
    _said: str = ""

    def for_queued(self, zone: str, name: str) -> Sequence[Node]:
        """Returns the nodes of a queued resource once all workers are there. Raises TakenAway, TooLong, TpuError.

        The time limit counts from when it may come up, or from now where that is past.
        """
        what, begin, limit = f"queued resource {name} in {zone}", self.now(), self.limits.queue_s
        for passed in self._looks():
            try:
                queued = self.tpu.queued_resource(zone, name)
            except NotFound as error:
                raise self.tpu.why_gone(zone, name) from error
            self._refuse_ended(what, queued)
            if queued.state in ("ACTIVE", "PROVISIONING"):
                break
            too_early = max(0.0, (queued.valid_after or begin) - begin)
            ends = [one for one in (_until(begin + too_early, limit), queued.valid_until) if one is not None]
            early = f" (not before {_clock(begin + too_early, begin)})" if too_early else ""
            self._tell(Waiting(what, queued.state + early, queued.created_at, min(ends, default=None)))
            if limit is not None and passed - too_early > limit:
                raise TooLong(
                    f"{what} waited {passed:.0f} s in the queue and is {queued.state}: limits.queue_s passed"
                )
        return self.for_nodes(zone, queued.nodes, name)

    def _refuse_ended(self, what: str, queued: Queued) -> None:
        """Raises for a queued resource that will not come to nodes any more."""
        if queued.state == "FAILED" and queued.valid_until is not None and queued.valid_until <= self.now():
            raise TooLong(f"{what} found no room until its valid_until, {_clock(queued.valid_until)}")
        if queued.state == "FAILED":
            raise error_for(queued.error_code or 8, queued.error, f"get {what}")
        if queued.state in NEVER_ACTIVE:
            raise TakenAway(
                f"{what} is {queued.state} by {queued.initiator.lower()}: its capacity was taken away"
            )

    def until_free(self, zone: str, name: str, ask: Callable[[], str]) -> str:
        """Asks for something, again and again while what has its name is going. Raises TooLong, TpuError."""
        since, limit = self.now(), self.limits.provisioning_s
        for passed in self._looks():
            try:
                return ask()
            except Going as error:
                if limit is not None and passed > limit:
                    raise TooLong(
                        f"{error}, and did not go within limits.provisioning_s, {limit:g} s"
                    ) from error
                self._tell(
                    Waiting(f"the name {name} in {zone}", "taken, DELETING,", since, _until(since, limit))
                )
        raise AssertionError("looks never end by themselves")

    def for_nodes(self, zone: str, names: Sequence[str], queued: str | None = None) -> Sequence[Node]:
        """Returns nodes once all their workers are there; `queued` makes them. Raises TakenAway, TooLong, TpuError."""
        since, limit = self.now(), self.limits.provisioning_s
        for passed in self._looks():
            nodes = [self._look(zone, name, queued) for name in names]
            coming = [one for one in nodes if one is None or not _complete(one)]
            if not coming:
                return [node for node in nodes if node is not None]
            dead = next((one for one in coming if one is not None and one.state in GONE_BUT_THERE), None)
            if dead is not None:
                raise TakenAway(
                    f"TPU VM {dead.name} in {zone} is {dead.state}: it was taken away while it came up"
                )
            told = ", ".join(
                _told(name, node) for name, node in zip(names, nodes, strict=True) if node in coming
            )
            self._tell(
                Waiting(
                    f"what was asked for in {zone}, {counted(len(names), 'slice')},",
                    f"coming up ({told})",
                    since,
                    _until(since, limit),
                )
            )
            if limit is not None and passed > limit:
                raise TooLong(
                    f"not all of it came up in {zone} within limits.provisioning_s, {limit:g} s: {told}"
                )
        raise AssertionError("looks never end by themselves")

    def _look(self, zone: str, name: str, queued: str | None) -> Node | None:
        """Returns a node; None while the queued resource it belongs to has not made it yet."""
        try:
            return self.tpu.node(zone, name)
        except NotFound as error:
            if queued is None:
                raise self.tpu.why_gone(zone, name) from error
            try:
                state = self.tpu.queued_resource(zone, queued).state
            except NotFound:
                raise self.tpu.why_gone(zone, queued) from error
            if state in NEVER_ACTIVE:
                raise TakenAway(
                    f"queued resource {queued} in {zone} is {state}, and {name} is gone"
                ) from error
            return None

    def _looks(self) -> Iterator[float]:
        """Yields the seconds passed, again and again; the lease must still be ours each time."""
        begin = time.monotonic()
        while True:
            yield time.monotonic() - begin
            time.sleep(self.poll_s)
            self.check()

    def _tell(self, waiting: Waiting) -> None:
        if str(waiting) != self._said:
            self._said = str(waiting)
            self.say(self._said)


def _complete(node: Node) -> bool:
    return node.state == "READY" and len(node.addresses) >= _hosts(node)


def _hosts(node: Node) -> int:
    try:
        return tpu_type(node.type).hosts
    except BadInput:  # one that exists may be of a type that our table does not know
        return 1


def _told(name: str, node: Node | None) -> str:
    if node is None:
        return f"{name} not there yet"
    if node.state == "READY":
        return f"{name} has {len(node.addresses)} of {_hosts(node)} workers"
    return f"{name} {node.state}" + (f", {node.health_text}" if node.health_text else "")


def _until(since: float, limit: float | None) -> float | None:
    return None if limit is None else since + limit


def _clock(at: float, since: float | None = None) -> str:
    """Returns a time of day, with the day where that is another one than `since`."""
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    days = {moment.date(), datetime.datetime.fromtimestamp(since or at, datetime.UTC).date()}
    return moment.strftime("%H:%M:%S UTC" if len(days) == 1 else "%Y-%m-%d %H:%M:%S UTC")
