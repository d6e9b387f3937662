"""A flow run of a server that a command waits for: begun, asked how it is, and cancelled by a signal."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flows.api import FlowRunState, PrefectApi, Unreachable
from flows.signals import answered
from runtime.contract.errors import InfrastructureError

PATIENCE_FOR_A_WORKER_S = 30.0

Say = Callable[[str], None]


class NoServer(InfrastructureError):
    """There is no server to go through, and why; no reason where none was to be expected."""


def deployment_on(api: PrefectApi, name: str) -> str:
    """Returns the id of a deployment. Raises NoServer where the server does not answer, or has none of that name."""
    try:
        deployment = api.deployment_id(name)
    except InfrastructureError as error:
        raise NoServer(str(error)) from error
    if deployment is None:
        raise NoServer(f"{api.server} has no deployment {name}")
    return deployment


def taken_there(names: Sequence[str]) -> str:
    """Says of variables whose values nobody gives that they are those of the worker; empty where there are none."""
    if not names:
        return ""
    return f"the value of {', '.join(names)} is taken from the environment of the Prefect worker"


class Outage:
    """A service that may be away for a while, which is told once when it begins, and once when it is over."""

    def __init__(self, kind: type[InfrastructureError], goes_on: str, back: str, say: Say) -> None:
        """`kind` is how its being away shows; `goes_on` and `back` are what is said then, and afterwards."""
        self._kind, self._goes_on, self._back, self._say = kind, goes_on, back, say
        self.lasts = False

    @contextmanager
    def borne(self) -> Iterator[None]:
        """Lets what is in the block fail for as long as the service is away."""
        try:
            yield
        except self._kind as error:
            if not self.lasts:
                self._say(f"{error}; {self._goes_on}")
            self.lasts = True
        else:
            if self.lasts:
                self._say(self._back)
            self.lasts = False


class Watched:
    """A flow run being watched. `what` it is called, as in "the run goes on by itself"."""

    def __init__(self, api: PrefectApi, flow_run: FlowRunState, what: str, say: Say) -> None:
        self.state = flow_run
        self._api, self._what, self._say = api, what, say
        self._server = Outage(Unreachable, f"the {what} goes on by itself", "the Prefect server is back", say)
        self._asked_to_stop = 0
        self._cancelled = False
        self._waiting_since: float | None = time.monotonic()

    @property
    def is_left(self) -> bool:
        """Whether it was asked a second time to stop: then it is left alone."""
        return self._asked_to_stop > 1

    @property
    def is_away(self) -> bool:
        """Whether the server does not answer."""
        return self._server.lasts

    @property
    def is_to_be_cancelled(self) -> bool:
        """Whether it was asked to stop, which the server does not know yet."""
        return bool(self._asked_to_stop) and not self._cancelled

    def ask(self) -> None:
        """Asks the server how it is, having told it first that it is to be cancelled, where it is."""
        with self._server.borne():
            if self.is_to_be_cancelled:
                self._api.cancel(self.state.id)
                self._cancelled = True
            self.state = self._api.flow_run(self.state.id)
        self._mention_waiting()

    @contextmanager
    def stopping(self, begun: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Cancels it at SIGINT and SIGTERM; the second one leaves it alone. `begun` is called at each."""

        def stop(number: signal.Signals) -> None:
            self._asked_to_stop += 1
            begun()
            self._say(
                "cancelling; waiting until everything is given back (once more: leave now)"
                if self._asked_to_stop == 1
                else "left; `slicebench leases` shows what is still being given back"
            )

        with answered((signal.SIGINT, signal.SIGTERM), stop):
            yield

    def _mention_waiting(self) -> None:
        """Says once what keeps it from beginning, where that takes long."""
        if self.state.state_type not in ("SCHEDULED", "PENDING"):
            self._waiting_since = None
        elif (
            self._waiting_since is not None
            and time.monotonic() - self._waiting_since > PATIENCE_FOR_A_WORKER_S
        ):
            self._waiting_since = None
            self._say(
                f"no worker has taken the flow run yet. Another {self._what} may be in the way, or no worker runs "
                "(start one: slicebench up)"
                if self.state.state_type == "SCHEDULED"
                else "a worker has taken the flow run, whose process has not begun yet; a busy machine takes its time"
            )
