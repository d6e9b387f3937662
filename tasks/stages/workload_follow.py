"""Follows a workload to its end: what its pods say, each state that is news, and what a command ends with then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runtime.contract.errors import ExitCode
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_follow import follow
from tasks.cloud.kubernetes_held import Held
from tasks.cloud.kubernetes_told import Line, Source, Unread
from tasks.cloud.kubernetes_watch import Change, Contact
from tasks.config.gke_target import GkeTargetConfig
from tasks.stages.workload_create import Submitted
from tasks.targets.gke_watch import Seen, objects_of
from tasks.targets.kube_found import DELETED, Found, KubeState
from tasks.targets.kube_objects import select
from tasks.targets.kube_states import is_last, look

Say = Callable[[str], None]


def heard(
    access: Access, namespace: str, name: str, uid: str, *, line: Callable[[Source, str], None], say: Say
) -> Iterator[Change]:
    """Yields the changes of a workload's objects until it has ended; tells `line` meanwhile what its pods say, and
    `say` what cannot be heard: the cluster, a log.
    """
    for one in follow(access, namespace, name, uid, until=_ends):
        match one:
            case Line(source, _, text):
                line(source, text)
            case Unread() | Held():
                say(f"{name}: {one}")
            case Contact(lost):
                say(f"the cluster does not answer: {lost}" if lost else "the cluster answers again")
            case Change():
                yield one


def to_the_end(
    kube: Kubernetes,
    config: GkeTargetConfig,
    made: Submitted,
    *,
    line: Callable[[str, str], None],
    say: Say,
) -> Found:
    """Follows a workload to its end; tells `line` what each pod says, and `say` each state that is news."""

    def told(source: Source, text: str) -> None:
        line(source.pod.removeprefix(f"{made.name}-"), text)

    seen = Seen(config, made.uid)
    for change in heard(kube.access, config.namespace, made.name, made.uid, line=told, say=say):
        if seen.take(change) and seen.found is not None:
            say(f"{made.name}: {seen.found.state} ({seen.found.reason})")
    assert seen.found is not None
    if seen.found.cause is not None:
        return seen.found
    # Watches of several kinds are not in step: word of the Job and pod that failed may come after that of the JobSet.
    again = look(select(made.uid, objects_of(kube, made.name, made.uid)))
    return again if again.state == seen.found.state else seen.found


def exit_code(found: Found) -> int:
    """Returns what a command that waited ends with: the program's own code; 1 where it failed without one, 3 where it
    did not fail, and will not end either: somebody deleted it.
    """
    if found.state is KubeState.SUCCEEDED:
        return ExitCode.DONE
    if found.state is KubeState.FAILED and found.reason != DELETED:
        return (found.cause.exit_code if found.cause else None) or ExitCode.WORKLOAD_FAILED
    return ExitCode.INFRASTRUCTURE


def _ends(change: Change) -> bool:
    return is_last(change.kind.name, change.type, change.object)
