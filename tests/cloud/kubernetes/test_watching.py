"""Shows watches: from a version on, selected, with bookmarks, told 410 when it is too late, and cut."""

from __future__ import annotations

import itertools
import threading

import httpx
import pytest
from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import ConfigMap

from tests.cloud.kubernetes.manifests import config_map
from tests.cloud.kubernetes.space import Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn


def _seen(api: Space, count: int, **query: str) -> list[tuple[str, str]]:
    events = itertools.islice(api.watch("configmaps", **query), count)
    return [(how, obj["metadata"].get("name", "")) for how, obj in events]


def test_it_tells_what_came_after_a_version(api: Space) -> None:
    start = api.post("configmaps", config_map("a"))["metadata"]["resourceVersion"]
    api.post("configmaps", config_map("b"))
    api.patch("configmaps", "a", {"data": {"x": "1"}})
    api.delete("configmaps", "b")
    assert _seen(api, 3, resourceVersion=start) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_without_a_version_it_begins_with_what_is_there(api: Space) -> None:
    api.post("configmaps", config_map("a"))
    events = api.watch("configmaps")
    assert [next(events)[1]["metadata"]["name"] for _ in range(2)] == ["a", "kube-root-ca.crt"]
    api.post("configmaps", config_map("b"))
    how, obj = next(events)
    assert (how, obj["metadata"]["name"]) == ("ADDED", "b")


def test_what_leaves_the_selection_is_deleted_for_the_watcher(api: Space) -> None:
    start = api.post("configmaps", config_map("a"))["metadata"]["resourceVersion"]
    api.patch("configmaps", "a", {"metadata": {"labels": {"app": "x"}}})
    api.patch("configmaps", "a", {"data": {"x": "1"}})
    api.patch("configmaps", "a", {"metadata": {"labels": {"app": "y"}}})
    api.post("configmaps", config_map("b", {"app": "x"}))
    told = _seen(api, 4, resourceVersion=start, labelSelector="app=x")
    assert told == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]


def test_bookmarks_tell_the_version_while_nothing_happens(cluster: KubernetesStandIn, api: Space) -> None:
    cluster.set(bookmark_s=0.02)
    start = api.post("configmaps", config_map("a"))["metadata"]["resourceVersion"]
    query = {"resourceVersion": start, "allowWatchBookmarks": "true"}
    how, obj = next(api.watch("configmaps", **query))
    assert how == "BOOKMARK"
    assert int(obj["metadata"]["resourceVersion"]) >= int(start)
    ends = [how for how, _ in api.watch("configmaps", resourceVersion=start, timeoutSeconds="1")]
    assert ends == []


def test_a_version_that_is_forgotten_is_410(cluster: KubernetesStandIn, api: Space) -> None:
    start = api.post("configmaps", config_map("a"))["metadata"]["resourceVersion"]
    api.patch("configmaps", "a", {"data": {"x": "1"}})
    cluster.tell("compact")
    how, status = next(api.watch("configmaps", resourceVersion=start))
    assert (how, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    client = Client(config=KubeConfig.from_file(cluster.kubeconfig).get("standin"), trust_env=False)
    with pytest.raises(ApiError) as told:
        next(iter(client.watch(ConfigMap, namespace=api.space, resource_version=start)))
    assert told.value.status.code == 410


@pytest.mark.parametrize("what", ["watch", "all"])
def test_a_watch_that_is_cut_goes_on_from_its_last_version(
    cluster: KubernetesStandIn, api: Space, what: str
) -> None:
    start = api.post("configmaps", config_map("a"))["metadata"]["resourceVersion"]
    events = api.watch("configmaps", resourceVersion=start)
    api.post("configmaps", config_map("b"))
    assert next(events)[1]["metadata"]["name"] == "b"
    cutting = threading.Thread(target=lambda: cluster.tell("cut", what=what))
    cutting.start()
    # The one ends like any response, the other breaks.
    with pytest.raises(StopIteration if what == "watch" else httpx.TransportError):
        next(events)
    cutting.join()
    api.post("configmaps", config_map("c"))
    assert _seen(api, 2, resourceVersion=start) == [("ADDED", "b"), ("ADDED", "c")]
