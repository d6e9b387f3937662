"""The steps of a point that may be stopped: after a restart one that was saved is gone on from.

In a point that is disrupted each saves data of its own, unless the benchmark makes what it saves itself.

What is told here of every step lets the supervisors strike at the right moment; what is demanded here makes a
benchmark that does not resume fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import jax

from runtime import pytree, verify
from runtime.contract.disruption import Disruption, Restart
from runtime.contract.errors import WorkloadFailed
from runtime.contract.metrics import RECOVERY, TIME
from runtime.contract.progress import StepState
from runtime.contract.suite import Point, TreeSpec
from runtime.measure import Block, Recorder

_STRUCK_WITHIN_S = 30.0
"""How long supervisors may take for a blow that is due."""

Tell = Callable[[StepState, int], None]


class NotResumed(WorkloadFailed):
    """A repeat was not disrupted, or a benchmark did not go on as one has to after a disruption."""


class Steps:
    """One repeat's steps on this worker. Times are seconds of this host's monotonic clock."""

    def __init__(
        self,
        point: Point,
        repeat: int,
        mesh: jax.sharding.Mesh | None,
        recorder: Recorder,
        tell: Tell,
        restart: Restart | None,
        began_at: float,
    ) -> None:
        """`restart`: what the repeat was stopped at; None before. `began_at`: when JAX was there."""
        self.restart = restart
        self.tree: pytree.Tree = None
        self._asked, self._own = point.disruption, point.checkpoint.spec
        self.abstract = pytree.abstract_of(self._own, mesh) if self._own is not None else None
        self._seed = pytree.seed_of(point.checkpoint, repeat)
        self._mesh, self._recorder, self._tell, self._ready_at = mesh, recorder, tell, began_at
        self._first_at: float | None = None
        self._newest = -1
        self._resumed: int | None = None
        self._restored_s = self._setup_s = 0.0
        self._first_step: tuple[int, float] | None = None
        self._recovered = False

    def begin(self, step: int) -> pytree.Tree:
        """Returns the data of a step, which now has begun and is saved."""
        self._done_before(step)
        pytree.free(self.tree)
        self.tree = pytree.generate(self._spec, self._seed_of(step), self._mesh)
        jax.block_until_ready(self.tree)
        self.begins(step)
        self.saving(step)
        return self.tree

    def begins(self, step: int) -> None:
        """A step begins, of a benchmark that makes what it saves itself."""
        self._done_before(step)
        self._newest = step
        if self._first_at is None:
            self._first_at = time.monotonic()
        if self._resumed is not None and self._first_step is None:
            self._first_step = step, time.monotonic()

    def trained(self, step: int) -> None:
        """A step is done, whether it is saved or not."""
        self._done_before(step + 1)
        self._tell("trained", step)

    def saving(self, step: int) -> None:
        """A step begins to be saved."""
        self._tell("begun", step)

    def saved(self, step: int) -> None:
        """The checkpoint of a step is complete."""
        self._done_before(step + 1)
        self._tell("saved", step)

    def resumed(self, step: int, restored: pytree.Tree, took: Block) -> None:
        """The worker goes on from `step`, which `took` as long to restore. Raises NotResumed, or NotEqual."""
        self.went_on(step, took)
        self.verify(step, restored)

    def went_on(self, step: int, took: Block) -> None:
        """Same as `resumed` where the benchmark proves by itself that it restored what it had saved."""
        at = time.monotonic()
        restart = self.restart
        if restart is None or self._resumed is not None:
            raise NotResumed(f"it went on from step {step}, and there was no disruption to go on after")
        if restart.saved is not None and step < restart.saved:
            raise NotResumed(
                f"it went on from step {step}, and the checkpoint of step {restart.saved} was complete"
            )
        self._resumed = step
        self._tell("resumed", step)
        self._restored_s = took.seconds
        self._setup_s = max(0.0, at - self._ready_at - took.seconds)

    def verify(self, step: int, restored: pytree.Tree, *, same_sharding: bool = True) -> None:
        """Proves that `restored` is what `step` saved. Raises NotEqual."""
        expected = verify.expect(self.abstract, self._spec, self._seed_of(step))
        verify.check(expected, restored, same_sharding=same_sharding)

    def finish(self) -> None:
        """The repeat is over. Raises NotResumed when it was to be disrupted and was not, or did not go on then."""
        self._done_before(self._newest + 1)
        if self._asked is None:
            return
        if self.restart is None:
            self._await_the_blow(self._asked)
        elif self._resumed is None:
            raise NotResumed(f"it did not resume after the disruption ({self._asked.words}): it began anew")
        if not self._recovered:
            what = f"it went on from step {self._resumed}, and no step was left to do"
            raise NotResumed(f"{what}: disrupt it earlier, or let it do more steps")

    def _await_the_blow(self, asked: Disruption) -> None:
        """Waits to be killed if that is due; the supervisors may not have come to it."""
        now = time.monotonic()
        if asked.at_step is None:
            passed = 0.0 if self._first_at is None else now - self._first_at
            due, why = passed >= (asked.after_s or 0.0), f"the repeat was over after {passed:.3g} s"
        else:
            due, why = self._newest >= asked.at_step, f"its last step was {self._newest}"
        if due:
            threading.Event().wait(_STRUCK_WITHIN_S)
            why = f"nobody struck within {_STRUCK_WITHIN_S:g} s; a supervisor has to"
        raise NotResumed(f"the disruption did not happen ({asked.words}): {why}")

    def _done_before(self, step: int) -> None:
        """Once the first step after the restart is done, writes down what recovering took."""
        if self._recovered or self._first_step is None or self._first_step[0] >= step:
            return
        self._recovered = True
        restart, resumed = self.restart, self._resumed
        assert restart is not None and resumed is not None
        parts = {
            "setup_s": self._setup_s,
            "restore_s": self._restored_s,
            "first_step_s": time.monotonic() - self._first_step[1],
        }
        if restart.point is None:
            if restart.killed_at is None or restart.ended_at is None:
                return  # it was another worker that was struck
            parts["detection_s"] = restart.ended_at - restart.killed_at
            parts["start_s"] = self._ready_at - restart.ended_at
            parts[TIME] = sum(parts.values())
        # After an attempt that was taken away, whoever started this one knows the rest.
        for metric, seconds in parts.items():
            self._recorder.value(RECOVERY, metric, seconds, "s")
        self._recorder.value(RECOVERY, "resumed_from_step", resumed, "1")
        self._recorder.value(RECOVERY, "lost_steps", max(0, restart.begun - resumed), "1")

    @property
    def _spec(self) -> TreeSpec:
        assert self._own is not None
        return self._own

    def _seed_of(self, step: int) -> str:
        return f"{self._seed}/{step}"
