"""`slicebench workload create --wait`: what the workers say, until the workload has ended or nobody waits any more."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flows.cli.outlets import Unwritable
from flows.said import say
from flows.signals import answered
from runtime.contract.errors import ExitCode
from tasks.history.quantities import printable
from tasks.stages.workload_follow import exit_code, to_the_end
from tasks.targets.types import NeverUp

if TYPE_CHECKING:
    from runtime.contract.redaction import Redaction
    from tasks.cloud.kubernetes import Kubernetes
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.stages.workload_create import Submitted


class _Over(Exception):
    """Waited for long enough."""


def waited(
    kube: Kubernetes,
    config: GkeTargetConfig,
    made: Submitted,
    flags: str,
    limit_s: int | None,
    *,
    quiet: bool,
    redact: Redaction,
) -> tuple[int, str]:
    """Returns the exit code, and why nobody waits any more: the program's own; 130 when interrupted, 3 when the limit
    is over or it can never begin: it is still there then. `redact` hides in all that is shown what nobody is to read.
    """

    def line(pod: str, text: str) -> None:
        shown = printable(f"[{pod}] {redact(text)}")
        if quiet:
            say(shown)
        else:
            print(shown, flush=True)

    def told(*lines: str) -> None:
        say(*map(redact, lines))

    try:
        with _within(limit_s), answered((signal.SIGTERM,), _interrupt):
            found = to_the_end(kube, config, made, line=line, say=told)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED, _left(made, flags, "no longer waited for")
    except (Unwritable, BrokenPipeError):
        _left(made, flags, "what it says is no longer shown")
        raise
    except _Over:
        return ExitCode.INFRASTRUCTURE, _left(made, flags, f"it has not ended within {limit_s} s")
    except NeverUp as error:
        return ExitCode.INFRASTRUCTURE, _left(
            made, flags, printable(redact(str(error))), "it is there until it is deleted"
        )
    if found.cause is not None:
        told(f"{made.name}: {found.cause}", f"  next: slicebench workload explain {made.name} {flags}")
    elif found.message:
        told(f"{made.name}: {found.message}")
    code = exit_code(found)
    return code, redact(str(found.cause or found.message)) if code else ""


def _left(made: Submitted, flags: str, why: str, still: str = "it runs on") -> str:
    say(
        f"{made.name}: {why}; {still}",
        f"  next: slicebench workload logs {made.name} --follow {flags}",
        f"  next: slicebench workload delete {made.name} {flags}",
    )
    return why


def _interrupt(number: signal.Signals) -> None:
    raise KeyboardInterrupt


@contextmanager
def _within(limit_s: int | None) -> Iterator[None]:
    """Raises _Over within the block when its time is over."""
    if limit_s is None:
        yield
        return

    def over(number: signal.Signals) -> None:
        raise _Over

    with answered((signal.SIGALRM,), over):
        signal.alarm(limit_s)
        try:
            yield
        finally:
            signal.alarm(0)
