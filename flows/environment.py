"""An environment made or given back as a Prefect flow, unattended, within a time limit: environment/up and /down."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from flows.prefect_log import drop_expected_tracebacks, logged_by, outlive_worker
from flows.signals import answered
from runtime.contract.errors import BadInput, InfrastructureError, SlicebenchError
from tasks.config import duration
from tasks.config.environment_file import load_environment
from tasks.config.home import scratch_folder
from tasks.config.locate import locate
from tasks.leases.made import told
from tasks.stages.environment import bootstrap, down, up
from tasks.stages.environment_desk import Desk, opened


class TimeIsUp(InfrastructureError):
    """It takes longer than it may. What was made is in the environment's record: the same again goes on."""


class _Over(BaseException):
    """The time is over. Were it an InfrastructureError, whoever looks again after a failure would take it for one."""


def _name() -> str:
    from prefect.runtime import flow_run

    return f"{flow_run.parameters.get('do', 'up')} {flow_run.parameters.get('file', '')}".strip()


@flow(
    name="environment",
    flow_run_name=_name,
    description="A shared, queued cluster with all that is around it: made as its file says, or given back.",
    retries=0,
    persist_result=False,
)
def environment(
    file: str,
    do: Literal["up", "down"] = "up",
    set: list[str] | None = None,  # the word of the command
    bucket: bool = False,
    limit: str = "2h",
    wait: str = "0s",
) -> State[Any]:
    """Makes an environment as its file says, or gives all of it back. A retry goes on where it ended.

    Args:
        file: The environment: a path, or a name in configs/environments/
        do: up or down
        set: KEY=VALUE in place of what the file says, e.g. tpu_pools=0
        bucket: With down: give its bucket back as well
        limit: It ends after so long, whatever it has come to: 90m, 2h
        wait: For whoever works on it, at most so long, within the limit; else it is refused
    """
    drop_expected_tracebacks()
    outlive_worker()
    say = logged_by(get_run_logger())
    try:
        limit_s, wait_s = _seconds(limit, "limit"), _seconds(wait, "wait")
        with within(limit_s, limit):
            return Completed(message=_done(file, do, tuple(set or ()), bucket, wait_s, say))
    except SlicebenchError as error:
        say(str(error))
        return Failed(message=f"{error.exit_code.name}: {str(error).splitlines()[0]}")


def _done(
    file: str,
    do: str,
    overrides: tuple[str, ...],
    bucket: bool,
    wait_s: float,
    say: Callable[[str], None],
) -> str:
    config = load_environment(locate(file, "environments"), overrides)

    def desk() -> Desk:
        return opened(config, None, say, scratch=scratch_folder())

    if do == "down":
        gone = down(desk(), config, bucket=bucket, wait_s=wait_s)
        went = f"{told(gone)} given back" if gone else "what was made had gone before"
        return f"environment {config.called} is gone: {went}, nothing is left"
    bootstrap(desk(), config)
    done = up(desk(), config, wait_s=wait_s)  # from now on with its record
    but = f", but for what cannot be changed on what is there: {'; '.join(done.stays)}" if done.stays else ""
    return f"environment {config.called} is as {file} says{but}"


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
