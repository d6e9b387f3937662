"""Asks the service, while a workload runs, whether it still has its slices: they may be taken away at any time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType

from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import NotFound, TpuError
from tasks.cloud.tpu_model import GONE_BUT_THERE, NEVER_ACTIVE
from tasks.leases.resource import ResourceRef
from tasks.leases.tpus import QUEUED

WATCH_S = 15.0
"""How often the service is asked, seconds: one call for each slice, and one for a queued resource."""

_INTERRUPTED = GONE_BUT_THERE | {"REPAIRING", "RESTARTING", "REIMAGING"}
"""States of a node in which nothing runs any more that ran there before, though it may come back."""


def taken_away(tpu: CloudTpu, resources: Sequence[ResourceRef]) -> str:
    """Says which of some nodes and queued resources the service took away; empty when all are there.

    Raises TpuError when it does not answer.
    """
    for ref in resources:
        zone = ref.scope.partition("/")[2]
        try:
            names: Sequence[str] = [ref.name]
            if ref.kind == QUEUED:
                queued = tpu.queued_resource(zone, ref.name)
                if queued.state in NEVER_ACTIVE:
                    return f"queued resource {ref.name} in {zone} is {queued.state}"
                names = queued.nodes
            for name in names:
                node = tpu.node(zone, name)
                if node.state in _INTERRUPTED:
                    told = f": {node.health_text}" if node.health_text else ""
                    return f"TPU VM {name} in {zone} is {node.state}{told}"
        except NotFound as error:
            return f"{ref.name} in {zone} is gone: {error}"
    return ""


def gone_for_good(tpu: CloudTpu, resources: Sequence[ResourceRef]) -> set[str]:
    """Returns the names of nodes that will not run again: what was on them is gone as well. Raises TpuError."""
    gone = set()
    for ref in resources:
        zone = ref.scope.partition("/")[2]
        try:
            names = tpu.queued_resource(zone, ref.name).nodes if ref.kind == QUEUED else [ref.name]
        except NotFound:
            continue  # its nodes went with it, and nobody knows their names any more
        for name in names:
            try:
                if tpu.node(zone, name).state in GONE_BUT_THERE:
                    gone.add(name)
            except NotFound:
                gone.add(name)
    return gone


class Watch:
    """Looks every `every_s` seconds, in a thread, while the block runs. An API that does not answer says nothing."""

    def __init__(self, tpu: CloudTpu, resources: Sequence[ResourceRef], every_s: float = WATCH_S) -> None:
        self._tpu, self._resources, self._every_s = tpu, resources, every_s
        self._over = threading.Event()
        self._reason = ""
        self._thread = threading.Thread(target=self._keep_looking, name="watch TPUs", daemon=True)

    def reason(self) -> str:
        """Returns what was seen to be taken away; empty: nothing so far."""
        return self._reason

    def look(self) -> str:
        """Asks now, and returns what is taken away; empty when nothing is, or nobody answers."""
        try:
            self._reason = self._reason or taken_away(self._tpu, self._resources)
        except TpuError:
            return ""
        return self._reason

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _keep_looking(self) -> None:
        while not self._over.wait(self._every_s):
            if self.look():
                return
