"""Shows what becomes of pods: evicted, their node silent or gone, crashing, waiting for a Secret or a container."""

from __future__ import annotations

from typing import Any

from tests.cloud.kubernetes.manifests import jobset, pod
from tests.cloud.kubernetes.space import Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.waiting import until

_STAYS = "import time; print('up'); time.sleep(60)"


def _running(api: Space, count: int = 1) -> None:
    until(lambda: api.phases() == ["Running"] * count)


def test_a_deleted_node_fails_its_pods_and_their_jobset_starts_again(
    cluster: KubernetesStandIn, api: Space
) -> None:
    cluster.tell("nodes", pools=[{"pool": "spot", "count": 1, "labels": {"spot": "true"}}])
    made = jobset("a", _STAYS, slices=1, pods=1, failurePolicy={"maxRestarts": 1})
    inner = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    inner["nodeSelector"] = {"spot": "true"}
    del inner["containers"][0]["resources"]
    api.post("jobsets", made)
    _running(api)
    seen = api.get("pods")["metadata"]["resourceVersion"]
    cluster.tell("lose_node", name="spot-0", deleted=True)
    last = next(obj for how, obj in api.watch("pods", resourceVersion=seen) if how == "DELETED")["status"]
    assert last["phase"] == "Failed"
    assert ("DisruptionTarget", "DeletionByPodGC") in [
        (one["type"], one.get("reason")) for one in last["conditions"]
    ]
    api.eventually("jobsets", "a", lambda js: js["status"]["restarts"] == 1)
    cluster.tell("nodes", pools=[{"pool": "spot", "count": 1, "labels": {"spot": "true"}}])
    _running(api)
    told = api.eventually("jobsets", "a", lambda js: _restarting(js)["status"] == "False")
    assert _restarting(told)["reason"] == "JobsReady"
    api.delete("nodes", "spot-0")


def _restarting(js: dict[str, Any]) -> dict[str, Any]:
    [found] = [one for one in js["status"]["conditions"] if one["type"] == "RestartingJobSet"]
    return dict(found)


def test_pods_of_a_silent_node_are_deleted_and_wait_for_it(cluster: KubernetesStandIn, api: Space) -> None:
    cluster.set(node_grace_s=0.1, evict_after_s=0.1)
    cluster.tell("nodes", pools=[{"pool": "quiet", "count": 1, "labels": {"quiet": "true"}}])
    api.post("pods", pod("a", _STAYS, nodeSelector={"quiet": "true"}))
    _running(api)
    cluster.tell("lose_node", name="quiet-0")
    told = api.eventually("pods", "a", lambda told: "deletionTimestamp" in told["metadata"])
    conditions = {one["type"]: (one["status"], one.get("reason")) for one in told["status"]["conditions"]}
    assert conditions["Ready"][0] == "False"
    assert conditions["DisruptionTarget"] == ("True", "DeletionByTaintManager")
    node = api.get("nodes", "quiet-0")
    assert ("Ready", "Unknown") in [(one["type"], one["status"]) for one in node["status"]["conditions"]]
    assert "no route to host" in api.log("a", 500)
    api.delete("nodes", "quiet-0")
    api.gone("pods", "a")


def test_an_evicted_pod_says_so(api: Space) -> None:
    api.post(
        "pods", {**pod("a", _STAYS), "spec": {**pod("a", _STAYS)["spec"], "terminationGracePeriodSeconds": 5}}
    )
    _running(api)
    seen = api.get("pods")["metadata"]["resourceVersion"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert api.http.post(f"{api.path('pods', 'a')}/eviction", json=eviction).status_code == 201
    last = next(obj for how, obj in api.watch("pods", resourceVersion=seen) if how == "DELETED")["status"]
    assert ("DisruptionTarget", "True") in [(one["type"], one["status"]) for one in last["conditions"]]
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


def test_a_crashing_container_backs_off_and_keeps_its_last_log(api: Space) -> None:
    made = pod("a", "print('trouble'); raise SystemExit(3)")
    made["spec"]["restartPolicy"] = "Always"
    api.post("pods", made)

    def crashed(told: dict[str, object]) -> bool:
        status = told["status"].get("containerStatuses", [{}])[0]  # type: ignore[attr-defined]
        return bool(status.get("restartCount", 0) >= 2 and "waiting" in status["state"])

    status = api.eventually("pods", "a", crashed)["status"]["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert api.log("a", previous="true") == "trouble\n"
    api.delete("pods", "a")


def test_secrets_come_as_variables_and_files_and_a_missing_one_is_waited_for(api: Space) -> None:
    program = "import os; print(os.environ['KEY'], open(os.environ['AT'] + '/key').read())"
    made = pod("a", program)
    container = made["spec"]["containers"][0]
    container["env"] = [
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
        {"name": "AT", "value": "/secrets/s"},
    ]
    container["volumeMounts"] = [{"name": "v", "mountPath": "/secrets/s"}]
    made["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "s"}}]
    api.post("pods", made)

    def waits(told: dict[str, object]) -> bool:
        states = told["status"].get("containerStatuses", [])  # type: ignore[attr-defined]
        return any(
            one["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError" for one in states
        )

    api.eventually("pods", "a", waits)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"key": "open sesame"},
    }
    api.post("secrets", secret)
    api.eventually("pods", "a", lambda told: told["status"]["phase"] == "Succeeded")
    assert api.log("a") == "open sesame open sesame\n"


def test_containers_start_when_those_before_them_are_done(api: Space) -> None:
    made = pod("a", "import os; print(os.listdir('/shared'))")
    mount = [{"name": "shared", "mountPath": "/shared"}]
    made["spec"]["volumes"] = [{"name": "shared", "emptyDir": {}}]
    main = made["spec"]["containers"][0]
    made["spec"]["initContainers"] = [
        {**main, "name": "first", "command": ["sh", "-c", "touch /shared/done"], "volumeMounts": mount}
    ]
    main["volumeMounts"] = mount
    main["command"][-1] = "import os, sys; print(os.listdir(sys.argv[1]))"
    main["args"] = ["/shared"]
    api.post("pods", made)
    api.eventually("pods", "a", lambda told: told["status"]["phase"] == "Succeeded")
    assert api.log("a", container="main") == "['done']\n"
