"""Shows pods' logs: followed, stamped, from a time on, and what is told where there is none."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from tests.cloud.kubernetes.manifests import pod
from tests.cloud.kubernetes.space import Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.waiting import until

_TALKS = "import sys; print('one'); print('two', file=sys.stderr, flush=True); print('three', end='')"
_STAYS = "import time; print('up'); time.sleep(60)"


def _over(api: Space, name: str) -> None:
    api.eventually("pods", name, lambda told: told["status"]["phase"] in ("Succeeded", "Failed"))


def test_both_streams_with_stamps(api: Space) -> None:
    api.post("pods", pod("a", _TALKS))
    _over(api, "a")
    assert sorted(api.log("a").replace("three", "three\n").split()) == ["one", "three", "two"]
    for line in api.log("a", timestamps="true").splitlines():
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z \w+", line), line
    assert len(api.log("a", tailLines="1").splitlines()) == 1
    assert len(api.log("a", limitBytes="2")) == 2


def test_a_time_counts_in_whole_seconds(cluster: KubernetesStandIn, api: Space) -> None:
    api.post("pods", pod("a", _STAYS))
    until(lambda: api.http.get(f"{api.path('pods', 'a')}/log").text == "up\n")
    stamp = api.log("a", timestamps="true").split()[0]
    assert api.log("a", sinceTime=stamp) == "up\n"
    assert api.log("a", sinceTime=re.sub(r"\.\d+", ".999999999", stamp)) == "up\n"
    later = datetime.fromtimestamp(datetime.fromisoformat(stamp).timestamp() + 2, UTC)
    assert api.log("a", sinceTime=later.strftime("%Y-%m-%dT%H:%M:%SZ")) == ""
    api.delete("pods", "a", gracePeriodSeconds="0")


def test_a_followed_log_ends_with_its_container(cluster: KubernetesStandIn, api: Space) -> None:
    api.post("pods", pod("a", _STAYS))
    until(lambda: api.http.get(f"{api.path('pods', 'a')}/log").text == "up\n")
    with api.http.stream("GET", f"{api.path('pods', 'a')}/log", params={"follow": "true"}) as response:
        lines = response.iter_lines()
        assert next(lines) == "up"
        cluster.tell("write_log", namespace=api.space, pod="a", lines=["more"])
        assert next(lines) == "more"
        api.delete("pods", "a", gracePeriodSeconds="1")
        assert list(lines) == []


def test_a_followed_log_can_be_cut(cluster: KubernetesStandIn, api: Space) -> None:
    api.post("pods", pod("a", _STAYS))
    until(lambda: api.http.get(f"{api.path('pods', 'a')}/log").text == "up\n")
    with api.http.stream("GET", f"{api.path('pods', 'a')}/log", params={"follow": "true"}) as response:
        lines = response.iter_lines()
        assert next(lines) == "up"
        cluster.tell("cut", what="log")
        assert list(lines) == []
    assert api.phases() == ["Running"]


def test_what_is_told_where_there_is_no_log(cluster: KubernetesStandIn, api: Space) -> None:
    assert api.log("nope", 404) == 'pods "nope" not found'
    api.post("pods", pod("nowhere", nodeSelector={"no": "node"}))
    assert api.http.get(f"{api.path('pods', 'nowhere')}/log").status_code == 204
    cluster.set(ready_after_s=60)
    api.post("pods", pod("slow"))
    api.eventually("pods", "slow", lambda told: told["status"].get("containerStatuses"))
    assert api.log("slow", 400) == 'container "main" in pod "slow" is waiting to start: ContainerCreating'
    two = pod("two")
    two["spec"]["containers"] = [{**two["spec"]["containers"][0], "name": name} for name in "cd"]
    api.post("pods", two)
    message = "a container name must be specified for pod two, choose one of: [c d]"
    assert api.log("two", 400) == message
    assert api.log("two", 400, container="e") == "container e is not valid for pod two"
    refused = json.loads(api.http.get(f"{api.path('pods', 'two')}/log").text)
    assert (refused["kind"], refused["reason"], refused["code"]) == ("Status", "BadRequest", 400)
