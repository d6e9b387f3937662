"""Joins the workers of an attempt into one JAX program, and lets them agree before they go on together."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from runtime.contract.errors import InfrastructureError
from runtime.settings import Membership

if TYPE_CHECKING:
    import numpy as np

_CAUSE_BYTES = 512
"""What of a worker's cause travels to the others: collectives need one shape everywhere."""


def join(membership: Membership) -> None:
    """Connects this worker with the others; one alone needs nothing. To be called before devices are used.

    Raises:
      InfrastructureError: the workers did not meet in time. N workers never run as N programs of one.
    """
    if membership.workers == 1:
        return
    import jax

    assert membership.coordinator is not None
    keep_proxies_out_of(membership.coordinator)
    deadline = threading.Timer(membership.init_deadline_s, _give_up, [membership])
    deadline.daemon = True
    deadline.start()
    try:
        jax.distributed.initialize(
            coordinator_address=membership.coordinator,
            num_processes=membership.workers,
            process_id=membership.worker,
            # All is said explicitly: detection asks metadata servers, and waits where there are none.
            cluster_detection_method="deactivate",
            # JAX ends the process when its own time is up, with nothing said that helps: ours comes first.
            initialization_timeout=membership.init_deadline_s + 60,
            heartbeat_timeout_seconds=membership.heartbeat_s,
            coordinator_bind_address=_bind_address(membership.coordinator),
        )
    except (RuntimeError, ValueError) as error:
        raise InfrastructureError(_why_apart(membership, _first_line(error))) from error
    finally:
        deadline.cancel()


def _give_up(membership: Membership) -> None:
    """Ends this process from a thread of its own: the main one is inside JAX and does not come back."""
    error = InfrastructureError(_why_apart(membership, f"{membership.init_deadline_s} s are over"))
    print(f"error: {error}", file=sys.stderr, flush=True)
    os._exit(error.exit_code)


def _why_apart(membership: Membership, reason: str) -> str:
    return (
        f"worker {membership.worker} of {membership.workers} could not join the others at"
        f" {membership.coordinator}: {reason}; check that all workers were started, that worker 0 can"
        " listen there and that the others reach it"
    )


def expect_everybody(membership: Membership) -> None:
    """Raises InfrastructureError when JAX sees another number of workers than there should be."""
    import jax

    if jax.process_count() != membership.workers:
        raise InfrastructureError(
            f"JAX sees {jax.process_count()} workers where {membership.workers} were started;"
            " check the platform and that all workers use the same one"
        )


def leave(membership: Membership) -> None:
    """Disconnects in order; waits for the other workers to do so too."""
    if membership.workers > 1:
        import jax

        jax.distributed.shutdown()


def agree(cause: str | None) -> str | None:
    """Waits for all workers; returns the first worker's cause not to go on, the same on each, or None.

    What goes wrong on one worker before a collective thus stops all of them, with one cause.
    """
    import jax

    if jax.process_count() == 1:
        return cause
    import numpy as np
    from jax.experimental import multihost_utils

    mine = np.zeros(_CAUSE_BYTES, np.uint8)
    if cause is not None:
        text = np.frombuffer(cause.encode()[:_CAUSE_BYTES] or b"?", np.uint8)
        mine[: len(text)] = text
    for worker, row in enumerate(multihost_utils.process_allgather(mine)):
        said = bytes(row).rstrip(b"\0").decode(errors="replace")
        if said:
            return f"worker {worker}: {said}"
    return None


def largest(number: int) -> int:
    """Waits for all workers; returns the largest of their numbers."""
    import jax

    if jax.process_count() == 1:
        return number
    import numpy as np
    from jax.experimental import multihost_utils

    return int(np.max(multihost_utils.process_allgather(np.asarray(number, np.int64))))


def total(numbers: np.ndarray) -> np.ndarray:
    """Waits for all workers; returns the sum of their numbers, place by place."""
    import jax

    if jax.process_count() == 1:
        return numbers
    from jax.experimental import multihost_utils

    every: np.ndarray = multihost_utils.process_allgather(numbers)
    together: np.ndarray = every.sum(axis=0, dtype=numbers.dtype)
    return together


def _bind_address(coordinator: str) -> str | None:
    """Returns where worker 0 listens: on loopback only, when that is where the others look."""
    host, _, port = coordinator.rpartition(":")
    if host.strip("[]") in ("localhost", "::1") or host.startswith("127."):
        return f"{'127.0.0.1' if host == 'localhost' else host}:{port}"
    return None


def keep_proxies_out_of(coordinator: str) -> None:
    """Workers talk to each other directly: gRPC would otherwise ask an HTTP proxy to, and hang."""
    host = coordinator.rpartition(":")[0].strip("[]")
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return
    for variable in ("no_proxy", "NO_PROXY"):
        known = os.environ.get(variable, "")
        if host not in known.split(","):
            os.environ[variable] = f"{known},{host}" if known else host


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
