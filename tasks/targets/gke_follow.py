"""Follows the workers of one JobSet to their end: records from their pods' logs, states from its objects.

A pod's log is the stream of its supervisor. A start of the JobSet is one attempt: when its cluster takes it away or
starts it again, that is told as PREEMPTED and the following ends. How supervisors ended that were told to stop is held
back until it is known who told them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from runtime.contract.errors import ExitCode, InfrastructureError
from runtime.contract.pod import start_file, stream_file
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import KubernetesError
from tasks.cloud.kubernetes_follow import Beat, Followed, follow
from tasks.cloud.kubernetes_held import Held
from tasks.cloud.kubernetes_kinds import ALL_NAMESPACES, JOB_SET, POD, WORKLOAD, Object
from tasks.cloud.kubernetes_link import Patience
from tasks.cloud.kubernetes_told import Line, LogEnd, Unread
from tasks.cloud.kubernetes_watch import Change, Contact
from tasks.cloud.storage import Folder, is_there
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.sidecar_in_pods import name_of
from tasks.targets.gke_beside import Beside
from tasks.targets.gke_heard import Workers
from tasks.targets.gke_waiting import Waiting
from tasks.targets.gke_watch import (
    Seen,
    ended_from_outside,
    failed_and_restarted,
    how_it_ended,
    lost_nodes,
    objects_of,
    taken_away,
    waiting,
)
from tasks.targets.kube_found import Found, KubeState
from tasks.targets.kube_objects import uid_of
from tasks.targets.kube_queue import position
from tasks.targets.kube_states import is_last
from tasks.targets.kube_template import container_names
from tasks.targets.streams import LOST
from tasks.targets.types import PREEMPTED, Event, Exited, LogLine, State, WorkloadRef

_LOOK_S = 0.5


@dataclass(frozen=True)
class Limits:
    """Seconds to wait until the cluster says why workers ended: when all did, and when some fell silent.

    It marks a node as unreachable after 40 s.
    """

    all_ended_s: float = 10.0
    some_silent_s: float = 75.0
    look_s: float = 1.0
    """How often it is looked whether the workload has waited too long."""
    alone_s: float | None = None
    """See Waiting."""
    sidecars_s: float = 15.0
    """What stands beside workers ends after them: how long it is heard once all workers have told their ends."""


class Following:
    """One workload that is followed. `cluster` None: it is gone. `stopping`: we ask it to end ourselves."""

    def __init__(
        self,
        config: GkeTargetConfig,
        cluster: Kubernetes | None,
        run: Folder,
        ref: WorkloadRef,
        stopping: Callable[[], bool],
        *,
        limits: Limits | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._config, self._run, self._ref = config, run, ref
        self._there = cluster
        self._stopping = stopping
        self._limits = limits or Limits()
        self._patience = patience
        self._count = config.workers
        self._seen = Seen(config, ref.uid)
        self._beside = Beside(ref.name, name_of(config))
        self._all_ended_at: float | None = None
        self._waits = Waiting(ref.name, config.limits, alone_s=self._limits.alone_s)
        self._began: int | None = None
        self._counted = 0
        self._next_look_at = 0.0

    def events(self, since: Mapping[int, int]) -> Iterator[Event]:
        """Yields what workers say after their cursors, and states, until all have ended. See Target.

        Raises WaitedTooLong for a workload that does not begin, NeverUp for one that never will for its sidecar.
        """
        workers = Workers(dict(since))
        # Pods that number their starts themselves may be at a later one of their JobSet.
        if since and not is_there(self._run, start_file(self._ref.attempt)):
            self._began = 1
        if self._is_gone():  # of which a watch would tell nothing, for ever
            yield from self._left_behind(workers)
            yield from self._how_it_ended(workers, "", gone=True)
            return
        taken = ""
        with closing(self._stream()) as followed:
            for one in followed:
                yield from self._told(one, workers)
                taken = self._taken()
                if taken or self._failed() or self._is_all_said(workers):
                    break
                if isinstance(one, Beat) and (taken := self._deserted(workers)):
                    break
        yield from self._left_behind(workers)
        yield from self._how_it_ended(workers, taken)

    @property
    def _cluster(self) -> Kubernetes:
        assert self._there is not None, "a cluster that is gone is not asked"
        return self._there

    def _is_gone(self) -> bool:
        """Says whether there is nothing to follow any more: we ended it, somebody deleted it, or its time is over."""
        if self._stopping() or self._there is None:
            return True
        try:
            there = self._cluster.find(JOB_SET, self._ref.name)
        except KubernetesError:  # it is asked again, for as long as there is patience
            return False
        return there is None or uid_of(there) != self._ref.uid

    def _stream(self) -> Generator[Followed, None, None]:
        wanted = {*container_names(self._config), self._beside.name}

        def containers(pod: Object) -> list[str]:
            there = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
            return [one["name"] for one in there if one["name"] in wanted]

        def over(change: Change) -> bool:
            return is_last(change.kind.name, change.type, change.object)

        ref = self._ref
        access = self._cluster.access
        yield from follow(
            access,
            access.namespace,
            ref.name,
            ref.uid,
            until=over,
            containers=containers,
            patience=self._patience,
            beat_s=self._limits.look_s,
        )

    def _told(self, one: Followed, workers: Workers) -> Iterator[Event]:
        match one:
            case Change():
                if self._seen.take(one) and self._seen.found is not None and not self._taken():
                    yield self._state(self._placed(waiting(self._seen.found)))
                if one.kind == POD and not self._stopping():
                    yield from self._beside.changed(one.object, one.type == "DELETED")
            case Beat():
                if not self._stopping():
                    yield from self._beside.beat()
                if self._began is None:
                    self._waits.check(self._seen.found)
            case Line() if one.source.container == self._beside.name:
                worker = self._seen.worker_of(one.source.uid, container_names(self._config)[0])
                if worker is not None:
                    yield self._beside.said(one, worker)
            case LogEnd() if one.source.container == self._beside.name:
                yield from self._beside.read(one)
            case Line():
                worker = self._seen.worker_of(one.source.uid, one.source.container)
                if worker is not None:
                    if self._began is None:
                        self._began = self._seen.found.attempt if self._seen.found else 1
                        self._counted = self._seen.found.counted if self._seen.found else 0
                    if workers.pods.setdefault(worker, one.source.uid) == one.source.uid:
                        event = workers.said(worker, one.text)
                        if event is not None:
                            yield event
            case Unread(why=""):
                yield State("heard", str(one))
            case Unread():
                yield State("unheard", str(one), "it is asked again; the pod may still be running")
            case Held():
                yield State("held", str(one))
            case Contact(lost=""):
                self._waits.unheard = False
                yield State("reachable", "the cluster answers again")
            case Contact():
                self._waits.unheard = True
                yield State("unreachable", one.lost, "it is asked again; the workload may still be running")

    def _is_all_said(self, workers: Workers) -> bool:
        """Says whether all workers have told their ends, and what stood beside them has said its last."""
        if len(workers.ended) + len(workers.held) < self._count:
            return False
        self._all_ended_at = self._all_ended_at or time.monotonic()
        return self._beside.is_said or time.monotonic() - self._all_ended_at > self._limits.sidecars_s

    def _state(self, found: Found) -> State:
        told = str(found.message)
        if found.position is not None:
            told = f"{told} ({found.position})" if told else str(found.position)
        waits = self._waits.told(found, time.time()) if self._began is None else ""
        return State(str(found.state).lower(), found.reason, "; ".join(filter(None, (told, waits))))

    def _placed(self, found: Found) -> Found:
        """Returns the state with its place among all that wait, asked for when it is news."""
        if found.state != KubeState.QUEUED or self._seen.workload is None:
            return found
        try:
            others = self._cluster.list(WORKLOAD, ALL_NAMESPACES).items
        except KubernetesError:  # we may see those of our namespace only
            return found
        return replace(found, position=position(self._seen.workload, others))

    def _taken(self) -> str:
        """Returns why what was begun does not go on; empty for what never began, or what we end ourselves."""
        if self._began is None or self._seen.found is None or self._stopping() or self._failed():
            return ""
        found = self._seen.found
        told = taken_away(found, self._began)
        return told or (self._seen.taken() if found.state == KubeState.FAILED else "")

    def _failed(self) -> str:
        """Returns why what was begun failed, where JobSet has started it again by now; empty: it has not."""
        if self._began is None or self._seen.found is None or self._stopping():
            return ""
        return failed_and_restarted(self._seen.found, self._counted)

    def _deserted(self, workers: Workers) -> str:
        """Returns in words which nodes are gone or silent, once some workers have ended long before the others did.

        A Job that fails waits for its last pod; that of a silent node stays, and is called lost after five minutes.
        """
        now = time.monotonic()
        if not workers.ended and not workers.held:
            return ""
        self._next_look_at = self._next_look_at or now + self._limits.some_silent_s
        if now < self._next_look_at or self._stopping():
            return ""
        self._next_look_at = now + self._limits.some_silent_s
        return lost_nodes(self._cluster, self._seen.nodes({*workers.ended, *workers.held}))

    def _left_behind(self, workers: Workers) -> Iterator[Event]:
        """Yields what pods left in the run's folder and nobody could hear: they are deleted with their logs."""
        for worker in workers.silent(self._count):
            try:
                content = self._run.read(stream_file(self._ref.attempt, worker))
            except InfrastructureError as error:
                yield LogLine(worker, workers.cursors.get(worker, 0), f"what it left cannot be read: {error}")
                continue
            for line in (content or b"").decode("utf-8", "replace").splitlines():
                event = workers.said(worker, line)
                if event is not None:
                    yield event

    def _how_it_ended(self, workers: Workers, taken: str, gone: bool = False) -> Iterator[Event]:
        """Yields the ends that were held back, and those that nobody told, once it is known who is behind them."""
        silent = workers.silent(self._count)
        if not silent and not workers.held:
            return
        why = ""
        if gone and not self._stopping():
            why = "its JobSet is gone: somebody deleted it, or it had ended and its time to live was over"
        elif not self._stopping():
            taken, why = (taken, "") if taken else self._judge(bool(silent))
        blind = {ExitCode.INTERRUPTED}
        if self._seen.found is not None and ended_from_outside(self._seen.found):
            blind.add(ExitCode.INFRASTRUCTURE)  # it only saw that another was gone
        for worker, exited in sorted(workers.held.items()):
            yield Exited(worker, LOST, why) if why and exited.code in blind else exited
        for worker in silent:
            yield Exited(worker, LOST, taken or why or "its pod is gone, and it left no word of how it ended")
        if taken:
            yield State(PREEMPTED, taken)

    def _judge(self, silent: bool) -> tuple[str, str]:
        """Returns why the cluster took the workload away, or else how the cluster says that it ended."""
        until = time.monotonic() + (self._limits.some_silent_s if silent else self._limits.all_ended_s)
        nodes = self._seen.nodes()
        while True:
            try:
                found = self._seen.replace(objects_of(self._cluster, self._ref.name, self._ref.uid))
                nodes = {**nodes, **self._seen.nodes()}
                taken = self._taken() or lost_nodes(self._cluster, nodes)
            except KubernetesError as error:
                found, taken = None, ""
                unknown = f"nobody can say why: {error}"
            if taken:
                return taken, ""
            if found is not None and (failed := self._failed()):
                return "", failed
            if found is not None and found.over:
                return "", how_it_ended(found, self._config.limits.workload_s)
            if time.monotonic() > until:
                if found is None:
                    return "", unknown
                return "", how_it_ended(found, self._config.limits.workload_s) if found.cause else ""
            time.sleep(_LOOK_S)
