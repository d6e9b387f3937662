"""Our JobSets at an API server: each kind is taken, and a program in a pod finds what it was given."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tasks.targets.kube_jobset import jobset, secret
from tests.cloud.kubernetes.client import JOBSETS, PODS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.config.test_gke_target import FIELDS
from tests.tasks.targets.kube_made import PATHWAYS, config, submission
from tests.tasks.targets.test_kube_jobset import HARD

SECRETS = "/api/v1/namespaces/default/secrets"
PRINTS = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:]]))"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    nodes = [{"pool": "cpus", "count": 2, "resources": {"cpu": "8", "memory": "32Gi"}}]
    with KubernetesStandIn.started(tmp_path_factory.mktemp("cluster"), nodes=nodes) as started:
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
    for name in api.names(PODS):
        seen, argv = json.loads(api.text(f"{PODS}/{name}/log"))
        assert argv == HARD
        assert {**env, "MY_TOKEN": "$(HARD_0) hunter2"}.items() <= seen.items()
        assert (seen["PROCESSES_IN_JOB"], seen["JAX_PROCESS_COUNT"]) == ("2", "4")
        places.add((seen["JOB_INDEX"], seen["JOB_COMPLETION_INDEX"]))
    assert places == {("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")}


def test_pathways_is_taken(api: Plain) -> None:
    made = jobset(config(pathways=PATHWAYS), submission(name="a" * 39))
    api.post(JOBSETS, made, dryRun="All", fieldValidation="Strict")
