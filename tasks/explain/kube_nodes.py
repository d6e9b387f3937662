"""Nodes that are gone or silent under pods that still are said to run: Kubernetes says so of the pods minutes later."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tasks.explain.kube_scene import KubeScene, line, of_condition, trouble
from tasks.explain.scene import Line, Trouble
from tasks.targets.kube_objects import Object, condition, is_true, name
from tasks.targets.kube_pods import has_ended, node_of


def node_lost(scene: KubeScene) -> Trouble | None:
    """A node under a pod does not answer, or is gone."""
    if scene.found.over or scene.nodes is None:
        return None
    lost = silent_nodes(scene.objects.pods, scene.nodes)
    if not lost:
        return None
    which = f"node {lost[0][0]}" if len(lost) == 1 else f"{len(lost)} nodes, the first of them {lost[0][0]},"
    return trouble(
        "node_lost",
        f"{which} of its pods does not answer or is gone: they count as running for minutes yet, and are lost unless "
        "it comes back. They are struck off when it does, or a minute after it is deleted",
        _evidence(lost),
        (
            scene.describe,
            f"slicebench workload explain {scene.workload}   # again, in a minute",
            scene.delete,
        ),
    )


def silent_nodes(
    pods: Iterable[Object], nodes: Collection[Object]
) -> Sequence[tuple[str, Object | None, list[Object]]]:
    """Returns the nodes under pods that have not ended that are gone (None) or not ready, with those pods."""
    there = {name(one): one for one in nodes}
    on: dict[str, list[Object]] = {}
    for pod in pods:
        if (node := node_of(pod)) and not has_ended(pod):
            on.setdefault(node, []).append(pod)
    return [
        (node, there.get(node), theirs)
        for node, theirs in sorted(on.items())
        if is_true(there.get(node), "Ready") is None
    ]


def _evidence(lost: Sequence[tuple[str, Object | None, list[Object]]]) -> Iterator[Line]:
    for node, one, pods in lost:
        ready = condition(one, "Ready")
        if one is not None and ready is not None:
            yield of_condition(one, ready)
        else:
            yield line(
                {"kind": "Node", "metadata": {"name": node}}, "is not there, or says nothing of itself"
            )
        yield line(pods[0], f"is on node {node}, phase {(pods[0].get('status') or {}).get('phase')}")
