"""Our JobSets at an API server: each kind is taken, and a program in a pod finds what it was given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.targets.kube_jobset import jobset, secret
from tests.cloud.kubernetes.client import JOBSETS, PODS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.config.test_gke_target import FIELDS
from tests.tasks.targets.kube_made import PATHWAYS, config, submission
from tests.tasks.targets.test_kube_jobset import HARD
from tests.waiting import until

SECRETS = "/api/v1/namespaces/default/secrets"
PRINTS = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:]]))"


UPLOADS = "#!/bin/sh\necho uploads; exec sleep 600\n"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    labels = {"node.kubernetes.io/instance-type": "n2-standard-4"}
    nodes = [{"pool": "cpus", "count": 2, "resources": {"cpu": "8", "memory": "32Gi"}, "labels": labels}]
    folder = tmp_path_factory.mktemp("cluster")
    uploader = folder / "bin" / "tb-gcp-uploader"
    uploader.parent.mkdir()
    uploader.write_text(UPLOADS)
    uploader.chmod(0o755)
    env = {"PATH": f"{uploader.parent}:/usr/bin:/bin"}
    with KubernetesStandIn.started(folder, nodes=nodes, image_env=env) as started:
        yield Plain(started.url)


def test_whatever_a_target_says_the_server_takes_it(api: Plain) -> None:
    for number, (_, fields) in enumerate(FIELDS.values()):
        made = jobset(config(**{**fields, "namespace": "default"}), submission(name=f"w{number}"))
        api.post(JOBSETS, made, dryRun="All", fieldValidation="Strict")


def test_a_program_finds_what_it_was_given(api: Plain) -> None:
    env = {f"HARD_{number}": value for number, value in enumerate(HARD)}
    target = config(type="cpu", nodes=2, slices=2, queue=None, priority=None, cpu="100m")
    what = submission(
        name="given",
        env=env,
        secrets={"MY_TOKEN": "$(HARD_0) hunter2"},
        command=["python", "-c", PRINTS, *HARD],
    )
    uid = api.post(JOBSETS, jobset(target, what))["metadata"]["uid"]
    kept = secret(target, what, uid)
    assert kept is not None
    api.post(SECRETS, kept)
    assert api.ended("given")["status"]["terminalState"] == "Completed"
    places = set()
    for name in api.names(PODS, labelSelector="jobset.sigs.k8s.io/jobset-name=given"):
        seen, argv = json.loads(api.text(f"{PODS}/{name}/log"))
        assert argv == HARD
        assert {**env, "MY_TOKEN": "$(HARD_0) hunter2"}.items() <= seen.items()
        assert (seen["PROCESSES_IN_JOB"], seen["JAX_PROCESS_COUNT"]) == ("2", "4")
        places.add((seen["JOB_INDEX"], seen["JOB_COMPLETION_INDEX"]))
    assert places == {("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")}


def test_each_pod_has_a_host_to_itself_where_several_would_fit(api: Plain) -> None:
    target = config(type="n2-standard-4-2", slices=1, queue=None, priority=None, cpu="100m")
    made = jobset(target, submission(name="apart", command=["sleep", "100"]))
    api.post(JOBSETS, made)
    here = "jobset.sigs.k8s.io/jobset-name=apart"
    pods = until(lambda: len(found := running(api, here)) == 2 and found)
    specs = [api.get(f"{PODS}/{each}")["spec"] for each in pods]
    assert {each["nodeName"] for each in specs} == {"cpus-0", "cpus-1"}
    apart = "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    # The leader of a slice that has a node pool to itself keeps away from other slices besides.
    assert sorted(len(each["affinity"][apart[0]][apart[1]]) for each in specs) == [1, 2]
    api.delete(f"{JOBSETS}/apart")
    until(lambda: not running(api, here))


def test_pathways_is_taken(api: Plain) -> None:
    made = jobset(config(pathways=PATHWAYS), submission(name="a" * 39))
    api.post(JOBSETS, made, dryRun="All", fieldValidation="Strict")


AFTER_IT = """
import pathlib, time
while not pathlib.Path({mark!r}).exists():
    time.sleep(0.02)
"""


def test_an_uploader_that_still_uploads_does_not_hold_up_success(api: Plain, tmp_path: Path) -> None:
    board = {
        "instance": "projects/p/locations/l/tensorboards/1",
        "logdir": "gs://bucket/logs",
        "image": "r/tb:1",
    }
    target = config(
        type="cpu", slices=1, queue=None, priority=None, cpu="100m", tensorboard=board,
        limits={"termination_grace_s": 1},
    )  # fmt: skip
    mark = tmp_path / "uploads"
    command = ["python", "-c", AFTER_IT.format(mark=str(mark))]
    api.post(JOBSETS, jobset(target, submission(name="board", command=command)))
    selector = "jobset.sigs.k8s.io/jobset-name=board,jobset.sigs.k8s.io/replicatedjob-name=tensorboard"
    until(lambda: any("uploads" in api.text(f"{PODS}/{each}/log") for each in running(api, selector)))
    mark.touch()
    assert api.ended("board")["status"]["terminalState"] == "Completed"
    until(lambda: not running(api, selector))  # it goes with the rest


# Waits in its first attempt until it is taken away or told how to end; later attempts end at once.
ONCE = """
import os, pathlib, sys, time
code = int(sys.argv[1])
if os.environ["ATTEMPT"] != "0":
    sys.exit(0)
if code:
    sys.exit(code)
print("waits", flush=True)
time.sleep(60)
"""
ATTEMPT = {"ATTEMPT": "metadata.annotations['jobset.sigs.k8s.io/restart-attempt']"}


def started(api: Plain, name: str, code: int, **fields: Any) -> None:
    target = config(
        type="cpu",
        slices=1,
        queue=None,
        priority=None,
        cpu="100m",
        limits={"termination_grace_s": 1},
        **fields,
    )
    command = ["python", "-c", ONCE, str(code)]
    api.post(JOBSETS, jobset(target, submission(name=name, command=command, fields=ATTEMPT)))


@pytest.mark.parametrize(
    ("code", "fields", "state", "restarts"),
    [
        (1, {}, "Failed", 0),
        (1, {"max_restarts": 2}, "Failed", 0),
        (42, {"max_restarts": 2}, "Completed", 1),
        (3, {"max_restarts": 2, "restart_exit_codes": "3-5"}, "Completed", 1),
        (1, {"max_restarts": 2, "restart_on_user_code_failure": True}, "Completed", 1),
    ],
)
def test_a_program_that_fails_starts_again_only_when_asked(
    api: Plain, code: int, fields: dict[str, Any], state: str, restarts: int
) -> None:
    name = f"ends-{code}-{len(fields)}-{restarts}"
    started(api, name, code, **fields)
    status = api.ended(name)["status"]
    assert (status["terminalState"], status.get("restarts", 0)) == (state, restarts)


def test_a_pod_that_is_taken_away_starts_again_without_counting(api: Plain) -> None:
    started(api, "taken", 0)
    selector = "jobset.sigs.k8s.io/jobset-name=taken"
    until(lambda: any("waits" in api.text(f"{PODS}/{each}/log") for each in running(api, selector)))
    (pod,) = running(api, selector)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    api.post(f"{PODS}/{pod}/eviction", body)
    status = api.ended("taken")["status"]
    assert (status["terminalState"], status["restarts"], status.get("restartsCountTowardsMax", 0)) == (
        "Completed",
        1,
        0,
    )


def running(api: Plain, selector: str) -> list[str]:
    items = api.get(PODS, labelSelector=selector)["items"]
    return [each["metadata"]["name"] for each in items if each.get("status", {}).get("phase") == "Running"]
