"""An image is tried in a pod of the cluster before a workload is made of it: once, and what does not work is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.contract.errors import ExitCode
from runtime.contract.names import SECRET_NAMES_VARIABLE
from tasks.cloud.kubernetes_places import cluster_at
from tasks.config.gke_target import GkeTargetConfig
from tasks.leases.holding import Holding
from tasks.leases.lease import State
from tasks.stages.run import exit_code_of
from tasks.stages.teardown import teardown
from tasks.targets import gke_smoke
from tasks.targets.gke_smoke import DoesNotWork, Subject, Waits, prove, trial, trial_config
from tasks.targets.kube_check import checked
from tasks.targets.kube_found import Found, KubeState
from tasks.targets.kube_jobset import jobset
from tasks.targets.types import Workload
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.runtime.supervised import ROOT
from tests.tasks.targets import gke_runs
from tests.tasks.targets.gke_runs import IMAGE, RUN, STANDING, Pods, hold, play

SCOPE = "context standin of {}/default"
SMOKE = f"create jobsets default/sb-{RUN}-e1-smoke"
WORK = f"create jobsets default/sb-{RUN}-e1"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What images have for JAX and Orbax."""
    folder = tmp_path_factory.mktemp("packages")
    for name in ("jax", "orbax/checkpoint"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("__version__ = '0.9.0'\n")
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Iterator[KubernetesStandIn]:
    env = {"PYTHONPATH": f"{packages}:{ROOT}"}
    with gke_runs.cluster(tmp_path_factory.mktemp("cluster"), image_env=env) as started:
        yield started


@pytest.fixture
def pods(
    cluster: KubernetesStandIn, packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pods]:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    (tmp_path / "out").mkdir()
    cluster.calls()
    yield Pods(cluster, tmp_path / "out")
    cluster.assert_nothing_left(but=STANDING)
    cluster.set(images=["*"], image_env={"PYTHONPATH": f"{packages}:{ROOT}"})


def made(pods: Pods) -> list[str]:
    """Returns what was made of JobSets since it was asked last, preflights included."""
    assert pods.cluster is not None
    return [" ".join(call.split()[:3]) for call in pods.cluster.calls() if call.startswith("create jobsets")]


def tried(pods: Pods, waits: Waits = Waits()) -> list[str]:  # noqa: B008
    """Tries the image alone; returns what is said. Whatever comes of it, nothing is left."""
    run, holding, said = pods.run(), hold(RUN), list[str]()
    scope = SCOPE.format(pods.cluster.kubeconfig if pods.cluster else "")
    api = cluster_at(scope)
    workload = Workload(RUN, run.folder.uri)
    config = run.spec.target
    assert isinstance(config, GkeTargetConfig)
    try:
        prove(Subject(IMAGE.reference, workload, config, scope), api, holding, said.append, waits)
    finally:
        release = teardown(run, holding)
    assert release.lease.state is State.GONE
    return said


def test_a_run_tries_its_image_before_the_workload(pods: Pods) -> None:
    run, holding = pods.run(smoke=True), hold(RUN)
    try:
        assert exit_code_of(play(run, holding)) == ExitCode.DONE
        kept = {ref.name for ref in holding.lease.resources}
    finally:
        teardown(run, holding)
    assert made(pods) == [WORK, SMOKE, WORK], "what would be made is asked first"
    assert kept == {f"sb-{RUN}-e1"}, "what was tried is given back before the workload is made"
    [proof] = (pods.folder / ".images").iterdir()
    steps = json.loads(proof.read_text())["steps"]
    assert [one["step"].split()[0] for one in steps] == ["resolve", "import", "import"]
    assert f"{IMAGE.reference} is new on this cluster: it is tried in a pod first" in " ".join(pods.said)


def test_what_does_not_work_is_told_and_tried_again_and_what_works_is_not(pods: Pods, packages: Path) -> None:
    cluster, broken = pods.cluster, pods.folder.parent / "broken"
    assert cluster is not None
    (broken / "jax").mkdir(parents=True)
    (broken / "jax" / "__init__.py").write_text("raise ImportError('libtpu is too old')")
    cluster.set(image_env={"PYTHONPATH": f"{broken}:{packages}:{ROOT}"})
    with pytest.raises(DoesNotWork, match="on this cluster: import jax: ImportError: libtpu is too old$"):
        tried(pods)
    cluster.set(image_env={"PYTHONPATH": f"{packages}:{ROOT}"})
    assert tried(pods)[-1].startswith("it works: ")
    assert tried(pods) == []
    assert made(pods) == [SMOKE, SMOKE.replace("-e1", "-e2")]


def test_an_image_without_our_runtime_is_told_as_one(pods: Pods) -> None:
    cluster, other = pods.cluster, pods.folder.parent / "other"
    assert cluster is not None
    (other / "runtime").mkdir(parents=True)
    (other / "runtime" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'runtime'\")")
    cluster.set(image_env={"PYTHONPATH": str(other)})
    with pytest.raises(DoesNotWork, match="it has no runtime of slicebench: build one with slicebench image"):
        tried(pods)


def test_an_image_that_cannot_be_pulled_is_given_up(pods: Pods) -> None:
    assert pods.cluster is not None
    pods.cluster.set(images=["others/*"])
    with pytest.raises(DoesNotWork, match="cannot be started on this cluster: ImagePullBackOff: pod"):
        tried(pods, Waits(stuck_s=0.0))


def test_one_that_nobody_can_try_in_time_is_told_with_the_way_out(pods: Pods) -> None:
    assert pods.cluster is not None
    pods.cluster.stop("scheduler")
    try:
        with pytest.raises(
            DoesNotWork, match="could not be tried within 0 s: .*smoke: false in the target file"
        ):
            tried(pods, Waits(total_s=0))
    finally:
        pods.cluster.stop()


# ---------------------------------------------------------------------- what is submitted


TPUS: dict[str, Any] = {
    "kind": "gke", "cluster": {"name": "c", "capacity": "spot"}, "type": "v5litepod-16", "slices": 2,
    "image": IMAGE.reference, "node_selector": {"pool": "fast"}, "tolerations": ["mine"], "cpu": "24",
    "image_pull_secret": "pull", "ramdisk": {}, "ops_agent": {}, "max_restarts": 3,
    "shared": {"directory": "/shared", "claim": "c"},
}  # fmt: skip
PLACE = "cluster c#0 of p in l/default"


def subject(**more: Any) -> Subject:
    env = {"A": "$(B)", "MY_TOKEN": "hidden", SECRET_NAMES_VARIABLE: "MY_TOKEN"}
    config = GkeTargetConfig.model_validate({**TPUS, **more})
    return Subject(IMAGE.reference, Workload("r", "gs://b/runs/r", env), config, PLACE)


def manifest(one: Subject) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the JobSet and the pod in it."""
    config = trial_config(one.config)
    told = jobset(config, trial(one, "x-smoke", {"slicebench-lease": "r-e1"}, Waits()))
    assert checked(told) == []
    [group] = told["spec"]["replicatedJobs"]
    assert group["replicas"] == 1 and group["template"]["spec"]["parallelism"] == 1
    return told, group["template"]["spec"]["template"]


def test_what_runs_in_the_workers_image_beside_them_is_tried_there_too() -> None:
    key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    plain, sealed = subject(), subject(encryption={"keys": {"bkt": key}})
    _, pod = manifest(sealed)
    [tries] = pod["spec"]["containers"]
    assert "tink" in tries["command"] and "jax" in tries["command"]
    assert "initContainers" not in pod["spec"], "it is tried without a key"
    assert sealed.proof != plain.proof, "that JAX is there proves nothing of it"


def test_its_pod_is_the_workers_but_for_chips_queue_and_nodes() -> None:
    told, pod = manifest(subject())
    assert told["metadata"]["labels"] == pod["metadata"]["labels"] == {"slicebench-lease": "r-e1"}
    assert "annotations" not in told["metadata"] and told["spec"]["ttlSecondsAfterFinished"] == 600
    assert told["spec"]["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] == 900
    spec = pod["spec"]
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"} and "affinity" not in spec
    assert spec["hostNetwork"] is True, "as the workers': it says who the pod is"
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["tolerations"] == [{"key": "mine", "operator": "Exists"}]
    [container] = spec["containers"]
    assert "resources" not in container and "securityContext" not in container
    assert {"name": "shared", "mountPath": "/shared"} in container["volumeMounts"]
    variables = {one["name"]: one for one in container["env"]}
    assert variables["A"]["value"] == "$$(B)" and "value" not in variables["MY_TOKEN"]
    assert container["command"][2:5] == ["runtime.smoke", "--output", "gs://b/runs/.images"]


def test_it_has_the_account_and_the_nodes_of_cpu_workers() -> None:
    hosts = {"type": "cpu", "cluster": None, "context": "k", "ramdisk": None, "node_selector": {"pool": "x"}}
    _, pod = manifest(subject(**hosts, service_account="sa"))
    assert pod["spec"]["serviceAccountName"] == "sa" and "hostNetwork" not in pod["spec"]
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/arch": "amd64", "pool": "x"}


@pytest.mark.parametrize(
    "other",
    [
        Subject("r/i@sha256:1", subject().workload, subject().config, PLACE),
        Subject(IMAGE.reference, subject().workload, subject().config, PLACE.replace("#0", "#1")),
        subject(service_account="sa"),
        subject(host_network=False),
    ],
)
def test_another_image_place_or_identity_is_another_proof(other: Subject) -> None:
    assert other.proof != subject().proof
    assert subject(slices=4, type="v5litepod-32").proof == subject().proof


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"steps": []}', '{"steps": [{"ok": false}]}', '{"steps": [1]}']
)
def test_what_is_no_proof_proves_nothing(content: str, tmp_path: Path) -> None:
    one = Subject("i", Workload("r", f"{tmp_path}/r"), subject().config, PLACE)
    (tmp_path / ".images").mkdir()
    (tmp_path / ".images" / one.proof).write_text(content)
    assert not one.is_proven()
    (tmp_path / ".images" / one.proof).write_text('{"steps": [{"ok": true}]}')
    assert one.is_proven()


def test_an_output_that_is_another_folder_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lease:
        lease = type("L", (), {"lease_id": "r-e1"})()
        resource_labels = ()

        def create(self, *_: object, **__: object) -> Any:
            return type("Ref", (), {"uid": "u"})()

        def discard(self, ref: object) -> None:
            pass

    said: list[str] = []
    monkeypatch.setattr(gke_smoke, "_awaited", lambda *_: Found(KubeState.SUCCEEDED))
    one = Subject("i", Workload("r", f"{tmp_path}/r"), subject().config, PLACE)
    prove(one, cast(Any, None), cast(Holding, Lease()), said.append, Waits())
    assert f"{tmp_path}/.images/{one.proof} of its pod is not seen from here" in said[-1]
