"""What was asked of GKE for a cluster: followed to its end, and written down meanwhile: others follow it as well."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tasks.cloud.container import Container, failure_of
from tasks.cloud.container_errors import Broken, NotFound
from tasks.cloud.container_model import Cluster, Pool
from tasks.leases.clusters import OPERATION
from tasks.leases.holding import Holding
from tasks.leases.resource import ResourceRef

CLUSTER_S, POOL_S = 3600.0, 7200.0
"""How long a cluster and a node pool may take to be made, seconds."""

_TELL_S = 60.0
"""What is waited for is told after so long, and again after twice as long each time."""


@dataclass
class Asked:
    """Waits for operations on one cluster and for what they make. `limit_s` is for all that is waited for together."""

    container: Container
    holding: Holding
    name: str
    location: Callable[[], str]
    say: Callable[[str], None]
    poll_s: float
    limit_s: float | None = None
    _began: float = field(default_factory=time.monotonic)

    def end_all(self) -> None:
        """Waits for what an earlier try had asked for, as the lease says, and strikes it off."""
        for ref in [ref for ref in self.holding.lease.resources if ref.kind == OPERATION]:
            self.say(f"waiting for {ref.name}, which was begun before")
            self._until(lambda ref=ref: self._is_over(ref), POOL_S, f"end {ref.name}")  # type: ignore[misc]
            self.holding.forget(ref)

    def follow(self, operation: str, limit_s: float) -> None:
        """Waits for the end of an operation, when its name is known. Raises the error that it ended with."""
        if not operation:
            return
        location = self.location()
        self._until(lambda: self.container.operation(location, operation).done, limit_s, f"end {operation}")
        self._strike(operation)
        ended = self.container.operation(location, operation)
        if ended.code or ended.error:
            raise failure_of(ended)

    def _until(self, over: Callable[[], bool], limit_s: float, doing: str) -> None:
        began = time.monotonic()
        if self.limit_s is not None:  # for all together
            limit_s = min(limit_s, self._began + self.limit_s - began)
        tell_s = _TELL_S
        while not over():
            waited = time.monotonic() - began
            if waited >= limit_s:
                raise Broken(f"cannot {doing}: it takes more than {self.limit_s or limit_s:.0f} s")
            if waited >= tell_s:
                tell_s *= 2
                self.say(
                    f"waiting for GKE to {doing}: for {waited:.0f} s by now, for {limit_s:.0f} s at most"
                )
            time.sleep(self.poll_s)
            self.holding.check()

    def _is_over(self, ref: ResourceRef) -> bool:
        try:
            return self.container.operation(self.location(), ref.name).done
        except NotFound:  # the service forgets them after a while
            return True

    def await_cluster(self) -> None:
        """Waits until the cluster is made. Raises ContainerError for one that is not to be."""
        there: list[Cluster] = []

        def came() -> bool:
            there[:] = [self.container.cluster(self.location(), self.name)]
            return there[0].state != "PROVISIONING"

        self._until(came, CLUSTER_S, f"make cluster {self.name}")
        if there[0].state in ("ERROR", "STOPPING"):
            why = self.container.why(self.location(), self.name)
            raise why or Broken(f"cluster {self.name} is {there[0].state}: {there[0].why}")

    def await_pool(self, name: str) -> None:
        """Waits until a node pool is made, or as it should be again. Raises ContainerError where it is not."""
        there: list[Pool] = []

        def came() -> bool:
            there[:] = [self.container.pool(self.location(), self.name, name)]
            return there[0].state not in ("PROVISIONING", "RECONCILING")

        self._until(came, POOL_S, f"make node pool {name}")
        if there[0].state != "RUNNING":
            why = self.container.why(self.location(), self.name, name)
            raise why or Broken(f"node pool {name} of {self.name} is {there[0].state}: {there[0].why}")

    def note(self, operation: str) -> None:
        """Writes down what is waited for: whoever goes on with the lease waits for it as well."""
        if operation:
            self.holding.adopt(OPERATION, self._scope(), operation, operation)

    def _strike(self, operation: str) -> None:
        ref = self.holding.lease.find(OPERATION, self._scope(), operation)
        if ref is not None:
            self.holding.forget(ref)

    def _scope(self) -> str:
        return f"{self.container.project}/{self.location()}"
