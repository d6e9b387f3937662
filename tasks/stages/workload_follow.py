"""Follows a workload to its end: what its pods say, each state that is news, and what a command ends with then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from runtime.contract.errors import ExitCode
from runtime.contract.redaction import clean
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_follow import Beat, Followed, follow
from tasks.cloud.kubernetes_held import Held
from tasks.cloud.kubernetes_kinds import POD, Object
from tasks.cloud.kubernetes_logs import all_containers
from tasks.cloud.kubernetes_told import Line, LogEnd, Source, Unread
from tasks.cloud.kubernetes_watch import Change, Contact
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.sidecar_in_pods import name_of
from tasks.stages.workload_create import Submitted
from tasks.targets.gke_beside import Beside
from tasks.targets.gke_watch import Seen, objects_of
from tasks.targets.kube_found import DELETED, Found, KubeState
from tasks.targets.kube_objects import select
from tasks.targets.kube_states import is_last, look
from tasks.targets.types import State

Say = Callable[[str], None]

_BEAT_S = 1.0


def heard(
    access: Access,
    namespace: str,
    name: str,
    uid: str,
    *,
    line: Callable[[Source, str], None],
    say: Say,
    beside: Beside | None = None,
) -> Iterator[Change]:
    """Yields the changes of a workload's objects until it has ended; tells `line` meanwhile what its pods say, and
    `say` what cannot be heard: the cluster, a log; and what becomes of what stands `beside` its programs, if that is
    given. Raises NeverUp.
    """

    def containers(pod: Object) -> Sequence[str]:
        sidecars = pod["spec"].get("initContainers") or () if beside is not None else ()
        named = [str(one["name"]) for one in sidecars if beside is not None and one["name"] == beside.name]
        return [*all_containers(pod), *named]

    beat_s = None if beside is None else _BEAT_S
    for one in follow(access, namespace, name, uid, until=_ends, containers=containers, beat_s=beat_s):
        if beside is not None:
            for state in _beside(beside, one):
                say(clean(f"{name}: {state.state}: {state.reason}; {state.evidence}"))
        match one:
            case Line(source) if beside is not None and source.container == beside.name:
                continue  # its log is not the program's
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
    """Follows a workload to its end; tells `line` what each pod says, and `say` each state that is news.

    Raises NeverUp for one that will not begin for what is to stand beside its program.
    """

    def told(source: Source, text: str) -> None:
        line(source.pod.removeprefix(f"{made.name}-"), text)

    seen, beside = Seen(config, made.uid), Beside(made.name, name_of(config))
    for change in heard(
        kube.access, config.namespace, made.name, made.uid, line=told, say=say, beside=beside
    ):
        if seen.take(change) and seen.found is not None:
            say(f"{made.name}: {seen.found.state} ({seen.found.reason})")
    assert seen.found is not None
    if seen.found.cause is not None:
        return seen.found
    # Watches of several kinds are not in step: word of the Job and pod that failed may come after that of the JobSet.
    again = look(select(made.uid, objects_of(kube, made.name, made.uid)))
    return again if again.state == seen.found.state else seen.found


def _beside(beside: Beside, one: Followed) -> Iterator[State]:
    match one:
        case Change() if one.kind == POD:
            yield from beside.changed(one.object, one.type == "DELETED")
        case Line() if one.source.container == beside.name:
            beside.said(one, 0)
        case LogEnd() if one.source.container == beside.name:
            yield from beside.read(one)
        case Beat():
            yield from beside.beat()


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
