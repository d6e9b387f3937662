"""An environment made or given back as a Prefect flow, unattended, within a time limit: environment/up and /down."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.prefect_log import drop_expected_tracebacks, logged_by, outlive_worker
from flows.signals import answered
from flows.states import refused_state
from runtime.contract.errors import BadInput, InfrastructureError, SlicebenchError
from tasks.config import duration
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_file import load_environment
from tasks.config.home import scratch_folder
from tasks.config.locate import locate
from tasks.leases.made import told
from tasks.stages.environment import bootstrap, bucket_left, down, up
from tasks.stages.environment_desk import Desk, opened
from tasks.stages.environment_done import but_for


class TimeIsUp(InfrastructureError):
    """It takes longer than it may. What was made is in the environment's record: the same again goes on."""


class _Over(BaseException):
    """The time is over. Were it an InfrastructureError, whoever looks again after a failure would take it for one."""


@flow(
    name="environment",
    flow_run_name="up {file}",
    description="Creates a shared GKE cluster with queues, network, accounts and bucket, or makes it match its file.",
    retries=0,
    persist_result=False,
)
def make(
    file: str,
    set: list[str] | None = None,  # the word of the command
    force: bool = False,
    limit: str = "2h",
    wait: str = "0s",
) -> State[Any]:
    """Makes an environment as its file says. A retry goes on where it ended.

    Args:
        file: The environment: a path, or a name in configs/environments/
        set: KEY=VALUE overrides what the file says, e.g. tpu_pools=0
        force: End what runs on node pools that are to be deleted; else it is refused
        limit: End after this long, whatever has been done by then: 90m, 2h
        wait: How long to wait, within the limit, while somebody else is changing it; 0s: it is refused at once
    """

    def agree(in_use: Sequence[str]) -> bool:
        if not force:
            what = f"{' and '.join(in_use)} would go, and what runs there would end with it"
            raise BadInput(what, fix="force: true lets it end; nothing was changed")
        return True

    def made(desk: Callable[[], Desk], config: EnvironmentConfig, wait_s: float) -> str:
        bootstrap(desk(), config)
        done = up(desk(), config, agree=agree, wait_s=wait_s)  # from now on with its record
        return f"environment {config.called} is as {file} says{but_for(done.stays)}"

    return _unattended(made, file, set, limit, wait)


@flow(
    name="environment",
    flow_run_name="down {file}",
    description="Deletes a shared GKE cluster with its queues, network and accounts, and verifies that all is gone.",
    retries=0,
    persist_result=False,
)
def give_back(
    file: str,
    set: list[str] | None = None,
    bucket: bool = False,
    limit: str = "2h",
    wait: str = "0s",
) -> State[Any]:
    """Gives all of an environment back, and looks that it is gone. A retry goes on where it ended.

    Args:
        file: The environment: a path, or a name in configs/environments/
        set: KEY=VALUE overrides what the file says, e.g. name=other
        bucket: Delete its bucket as well: only if empty, or with bucket.force_destroy
        limit: End after this long, whatever has been done by then: 90m, 2h
        wait: How long to wait, within the limit, while somebody else is changing it; 0s: it is refused at once
    """

    def gone(desk: Callable[[], Desk], config: EnvironmentConfig, wait_s: float) -> str:
        found = down(desk(), config, bucket=bucket, wait_s=wait_s)
        went = f"{told(found)} given back, " if found else ""
        left = bucket_left(desk(), config)
        return f"environment {config.called} is gone: {went}nothing is left" + (
            f" but bucket {left}" if left else ""
        )

    return _unattended(gone, file, set, limit, wait)


def _unattended(
    act: Callable[[Callable[[], Desk], EnvironmentConfig, float], str],
    file: str,
    overrides: list[str] | None,
    limit: str,
    wait: str,
) -> State[Any]:
    """Acts on an environment within a time limit; how it ended is the state, and why is in the log and its message."""
    drop_expected_tracebacks()
    outlive_worker()
    say = logged_by(get_run_logger())
    try:
        limit_s, wait_s = _seconds(limit, "limit"), _seconds(wait, "wait")
        with within(limit_s, limit):
            config = load_environment(locate(file, "environments"), tuple(overrides or ()))
            return Completed(
                message=act(lambda: opened(config, None, say, scratch=scratch_folder()), config, wait_s)
            )
    except SlicebenchError as error:
        say(str(error))
        return refused_state(error)


def _seconds(said: str, what: str) -> float:
    try:
        return duration.seconds(said)
    except (ValueError, BadInput):
        raise BadInput(f"{what}: {said!r} is no time", fix="write 90m, 2h or 1d") from None


@contextmanager
def within(limit_s: float, said: str) -> Iterator[None]:
    """Ends the block after so many seconds, by TimeIsUp, so that it cleans up. In the main thread only."""

    def over(number: signal.Signals) -> None:
        raise _Over

    with answered((signal.SIGALRM,), over):
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            yield
        except _Over:
            raise TimeIsUp(
                f"it takes more than {said}: what was made is written down, do the same again to go on"
            ) from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
