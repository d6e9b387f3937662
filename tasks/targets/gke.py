"""The GKE target: so far it plans. Running comes with what follows its pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime.contract.errors import BadInput, Problem
from tasks.cloud.google_place import choose_project, choose_zone
from tasks.cloud.storage import Folder
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.spec import RunSpec
from tasks.leases.holding import Holding
from tasks.targets import gke_plan
from tasks.targets.types import Bundle, Event, Image, Interpreter, Plan, Uploaded, Workers, WorkloadRef


class GkeTarget:
    """Pods of a JobSet behind the Protocol."""

    def __init__(self, config: GkeTargetConfig) -> None:
        if config.cluster is not None and config.cluster.location is None:
            placed = config.cluster.model_copy(update={"location": choose_zone(None).value})
            config = config.model_copy(update={"cluster": placed})
        self._config = config

    def plan(self, spec: RunSpec) -> Plan:
        """See Target."""
        return gke_plan.plan(spec, self._config, self.scope())

    def scope(self) -> str:
        """Returns where the cluster's names count: a context of a kubeconfig, or PROJECT/LOCATION/NAME."""
        cluster = self._config.cluster
        if cluster is None:
            return f"context {self._config.context}"
        return f"{choose_project(cluster.project).value}/{cluster.location}/{cluster.name}"

    def preflight(self, plan: Plan) -> list[Problem]:
        """See Target."""
        return []

    def image(self) -> Image | None:
        """See Target."""
        return None

    def interpreter(self) -> Interpreter | None:
        """See Target."""
        return None

    def acquire(self, plan: Plan, lease: Holding) -> Workers:
        """See Target."""
        raise _not_yet()

    def upload(self, workers: Workers, bundle: Bundle, image: Image) -> Uploaded:
        """See Target."""
        raise _not_yet()

    def start(self, uploaded: Uploaded, attempt: int, lease: Holding) -> WorkloadRef:
        """See Target."""
        raise _not_yet()

    def renew(self, ref: WorkloadRef) -> None:
        """See Target."""
        raise _not_yet()

    def follow(self, ref: WorkloadRef, since: Mapping[int, int]) -> Iterator[Event]:
        """See Target."""
        raise _not_yet()

    def fetch(self, ref: WorkloadRef, into: Folder) -> list[Problem]:
        """See Target. Workers write into the run's folder."""
        return []

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        """See Target."""
        raise _not_yet()


def _not_yet() -> BadInput:
    return BadInput("targets of kind gke are planned, and not run yet", fix="use slicebench plan")
