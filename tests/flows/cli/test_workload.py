"""`slicebench workload …` as a user runs it, against a cluster whose pods are processes of this machine."""

from __future__ import annotations

import json
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import app, main
from runtime.contract import progress
from tasks.cloud.labels import LEASE
from tasks.explain.kube_rules import kube_troubles
from tasks.explain.kube_scene import KubeScene
from tasks.explain.scene import Trouble
from tasks.targets.kube_objects import created_at
from tests.cloud.kubernetes.client import JOBSETS, PODS, SECRETS, WORKLOADS, Plain
from tests.cloud.kubernetes.manifests import TPU, jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.tasks.kube_cases import case, case_names
from tests.waiting import until

POOLS = [tpu_pool(f"np-{one}", *TPU.values(), hosts=2) for one in range(2)]
STAYS = "print('up', flush=True); import time; time.sleep(120)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    """One cluster for all tests of this file; each uses names of its own and deletes them."""
    folder = tmp_path_factory.mktemp("cluster")
    with KubernetesStandIn.started(folder, nodes=POOLS, images=["gcr.io/p/*"]) as started:
        yield started


@pytest.fixture
def api(cluster: KubernetesStandIn) -> Iterator[Plain]:
    plain = Plain(cluster.url)
    yield plain
    for name in plain.names(JOBSETS):
        plain.delete(f"{JOBSETS}/{name}")
    cluster.assert_nothing_left(but=("Workload",))


@pytest.fixture
def call(cluster: KubernetesStandIn, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs one command at the cluster; returns its exit code, what it printed and what it said."""

    def run(command: str, *words: str, where: bool = True) -> tuple[int, str, str]:
        capsys.readouterr()
        there = ("--context", "standin", "--kubeconfig", str(cluster.kubeconfig)) if where else ()
        code = main(["workload", command, *words, *there])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def running(api: Plain, name: str, pods: int = 2) -> None:
    api.eventually(PODS, lambda told: _phases(told, name) == ["Running"] * pods)


def _phases(told: dict[str, Any], name: str) -> list[str]:
    return [one["status"]["phase"] for one in told["items"] if one["metadata"]["labels"]["app"] == name]


def failing(name: str) -> dict[str, Any]:
    program = (
        "import os, sys, time\n"
        "if os.environ['JOB_COMPLETION_INDEX'] == '1':\n"
        "    print('ValueError: nothing to restore', file=sys.stderr)\n"
        "    sys.exit(3)\n"
        "time.sleep(120)"
    )
    return jobset(name, program, slices=1, pod={"terminationGracePeriodSeconds": 1})


def test_which_cluster_must_be_said(call: Any) -> None:
    code, _, said = call("list", where=False)
    assert (code, "say one of --context, --cluster and --target" in said) == (2, True)
    code, _, said = call("list", "--cluster", "c")
    assert (code, "--context and --cluster name a cluster each" in said) == (2, True)
    code, _, said = call("list", "--target", "local", where=False)
    assert (code, "is of kind local" in said) == (2, True)
    code, _, said = call("list", "--context", "nope", where=False)
    assert code == 2 and "kubeconfig" in said


def test_wrong_filters_are_refused(call: Any) -> None:
    assert "there are: EVERYTHING, FINISHED" in call("list", "--status", "DONE")[2]
    code, _, said = call("list", "--filter-by-job", "(")
    assert code == 2 and "no regular expression" in said
    code, _, said = call("list", "--namespace", "Bad_Name")
    assert code == 2 and "'Bad_Name' is no name of a namespace" in said


def test_workloads_are_listed_with_what_they_need_and_what_runs(api: Plain, call: Any) -> None:
    code, out, said = call("list")
    assert (code, out) == (0, "") and "there is no workload in namespace default of context standin" in said
    api.post(JOBSETS, jobset("listed", STAYS, slices=1))
    api.post(JOBSETS, failing("broken"))
    running(api, "listed")
    api.ended("broken")
    _, out, _ = call("list")
    heading, *lines = out.splitlines()
    assert " ".join(heading.split()) == "NAME CREATED PRIORITY NEEDED RUNNING DONE STATUS MESSAGE SINCE"
    rows = {line.split()[0]: line for line in lines}
    assert " 2       2        0     RUNNING  Started: 2 of 2 pods run" in rows["listed"]
    assert "FAILED" in rows["broken"] and "exited with 3" in rows["broken"]
    assert [line.split()[0] for line in call("list", "--status", "FAILED")[1].splitlines()[1:]] == ["broken"]
    told = json.loads(call("list", "--json", "--filter-by-job", "^lis")[1])
    [row] = told["workloads"]
    assert (row["name"], row["status"], row["needed"], row["running"]) == ("listed", "RUNNING", 2, 2)


def test_a_failure_is_explained_with_its_first_cause_and_the_next_command(
    api: Plain, call: Any, cluster: KubernetesStandIn
) -> None:
    api.post(JOBSETS, failing("fails"))
    api.ended("fails")
    code, out, _ = call("explain", "fails")
    assert code == 0
    assert out.startswith("fails: FAILED (")
    assert "(program_failed)" in out and "container jax-tpu exited with 3" in out
    pod = next(word for word in out.split() if word.startswith("fails-slice-job-0-1-")).strip(":")
    next_ = f"next: slicebench workload logs fails --pod {pod} --context standin --kubeconfig {cluster.kubeconfig}"
    assert next_ in out
    told = json.loads(call("explain", "fails", "--json")[1])
    assert told["found"]["cause"].startswith(f"pod {pod}: container jax-tpu exited with 3")


def test_a_worker_that_the_others_of_its_run_wait_for_is_named(api: Plain, call: Any) -> None:
    first, then = (
        progress.encode(body, seq=seq, at=1.0)
        for seq, body in enumerate((progress.Started(0, 7), progress.Init("begin")), 1)
    )
    program = (
        "import os, time\n"
        f"print({first!r})\n"
        f"os.environ['JOB_COMPLETION_INDEX'] == '0' and print({then!r})\n"
        "time.sleep(120)"
    )
    api.post(JOBSETS, jobset("waits", program, slices=1, labels={LEASE: "r1-e1"}))
    running(api, "waits")
    pods = sorted(api.names(PODS, labelSelector="app=waits"))
    until(lambda: [api.text(f"{PODS}/{pod}/log").count("\n") for pod in pods] == [2, 1])
    code, out, _ = call("explain", "waits")
    assert code == 0 and "jax.distributed is not complete: worker 1 is missing, worker 0 waiting" in out


def test_an_image_that_is_not_there_is_explained(api: Plain, call: Any) -> None:
    made = jobset("noimage", slices=1, pods=1)
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = "elsewhere/none:1"
    api.post(JOBSETS, made)
    api.eventually(PODS, lambda told: "ImagePull" in json.dumps(told))
    _, out, _ = call("explain", "noimage")
    assert "noimage: STARTING (ImagePullBackOff)" in out
    assert "the image elsewhere/none:1 cannot be pulled" in out


def test_a_selector_that_no_node_has_is_explained(api: Plain, call: Any) -> None:
    api.post(JOBSETS, jobset("nowhere", slices=1, pods=1, pod={"nodeSelector": {"kind": "none"}}))
    api.eventually(PODS, lambda told: "Unschedulable" in json.dumps(told))
    _, out, _ = call("explain", "nowhere")
    assert "nowhere: PROVISIONING (Unschedulable)" in out and "asks for nodes with kind=none" in out


def test_a_node_that_does_not_answer_is_told_before_kubernetes_says_so_of_its_pods(
    api: Plain, call: Any, cluster: KubernetesStandIn
) -> None:
    cluster.set(node_grace_s=0.1)
    cluster.tell("nodes", pools=[{"pool": "quiet", "count": 1, "labels": {"quiet": "true"}}])
    container = {"name": "jax-tpu", "image": "gcr.io/p/img:1", "command": ["sleep", "120"]}
    alone = {"containers": [container], "nodeSelector": {"quiet": "true"}}
    api.post(JOBSETS, jobset("lonely", slices=1, pods=1, pod=alone))
    running(api, "lonely", 1)
    cluster.tell("lose_node", name="quiet-0")
    silent = "Unknown"
    api.eventually(
        "/api/v1/nodes/quiet-0",
        lambda node: silent in [one["status"] for one in node["status"]["conditions"]],
    )
    cluster.calls()
    code, out, _ = call("explain", "lonely")
    assert code == 0 and "lonely: RUNNING" in out and "(node_lost)" in out
    assert "Node quiet-0 condition Ready: NodeStatusUnknown: Kubelet stopped posting node status." in out
    assert not any(
        "log" in one for one in cluster.calls()
    )  # of which the API server says so after half a minute
    api.delete(f"{JOBSETS}/lonely")
    api.delete("/api/v1/nodes/quiet-0")


def test_no_such_workload_names_what_is_near(api: Plain, call: Any) -> None:
    api.post(JOBSETS, jobset("near-it", slices=1, pods=1))
    code, _, said = call("explain", "near-tt")
    assert code == 2 and "did you mean near-it?" in said


def test_logs_are_read_by_worker_and_by_pod(api: Plain, call: Any) -> None:
    api.post(JOBSETS, jobset("says", "print('hi')"))
    api.ended("says")
    lines = call("logs", "says")[1].splitlines()
    assert lines == ["[0] hi", "[1] hi", "[2] hi", "[3] hi"]
    assert call("logs", "says", "--worker", "3")[1] == "[3] hi\n"
    pod = next(name for name in api.names(PODS) if name.startswith("says-slice-job-1-0"))
    assert call("logs", "says", "--pod", pod)[1] == "[2] hi\n"
    code, _, said = call("logs", "says", "--worker", "9")
    assert code == 2 and "has no worker 9" in said
    code, _, said = call("logs", "says", "--container", "zz")
    assert code == 2 and "has no container zz: its containers: jax-tpu" in said.replace(", its", ": its")
    [first, *_] = json.loads(call("logs", "says", "--json")[1])["logs"]
    assert (first["worker"], first["text"]) == (0, "hi\n")


def test_logs_are_followed_to_the_end(api: Plain, call: Any) -> None:
    program = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.1)"
    api.post(JOBSETS, jobset("goes", program, slices=1, pods=1))
    code, out, _ = call("logs", "goes", "--follow")
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines()] == ["0", "1", "2"]


def test_deleting_waits_until_the_pods_are_gone(api: Plain, call: Any, cluster: KubernetesStandIn) -> None:
    slow = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {STAYS}"
    api.post(JOBSETS, jobset("goner", slow, slices=1, pod={"terminationGracePeriodSeconds": 1}))
    running(api, "goner")
    assert len(cluster.processes()) == 2
    code, _, said = call("delete", "goner")
    assert code == 0 and said.endswith("deleted: goner\n")
    assert not cluster.processes()


def test_what_to_delete_must_be_said_and_agreed(api: Plain, call: Any) -> None:
    api.post(JOBSETS, jobset("kept-1", slices=1, pods=1))
    assert call("delete")[0] == 2
    assert call("delete", "kept-1", "--filter-by-job", "kept")[0] == 2
    code, _, said = call("delete", "--filter-by-job", "kept")
    assert code == 2 and "this deletes kept-1, say --force" in said
    assert json.loads(call("delete", "--filter-by-job", "^kept", "--force", "--json")[1]) == {
        "deleted": ["kept-1"]
    }


def test_a_run_of_slicebench_is_not_deleted_under_it(api: Plain, call: Any) -> None:
    labels = {"slicebench-lease": "r1-e1", "slicebench-owner": "jan"}
    api.post(JOBSETS, jobset("leased", slices=1, pods=1, labels=labels))
    code, _, said = call("delete", "leased")
    assert code == 2 and "leased (lease r1-e1 of jan)" in said
    assert call("delete", "leased", "--force")[0] == 0


def test_a_bundle_holds_everything_but_secrets(api: Plain, call: Any, tmp_path: Path) -> None:
    told = "import os; print('with', os.environ['API_TOKEN']); print('MINE', os.environ['MINE'])"
    made = jobset("bundled", f"{told}; print('OTHERS=of another')", slices=1, pods=1)
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = [
        {"name": "API_TOKEN", "value": "hunter2-is-long"},
        {"name": "A", "value": "b"},
        {"name": "MINE", "valueFrom": {"secretKeyRef": {"name": "bundled-env", "key": "MINE"}}},
        {"name": "OTHERS", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "K", "optional": True}}},
    ]
    api.post(SECRETS, {"metadata": {"name": "bundled-env"}, "stringData": {"MINE": "from a hunter2"}})
    made["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "hunter2-is-long"
    api.post(JOBSETS, made)
    api.ended("bundled")
    file = tmp_path / "bundle.tar.gz"
    code, out, said = call("inspect", "bundled", "--to", str(file))
    api.delete(f"{SECRETS}/bundled-env")
    assert (code, out) == (0, f"{file}\n") and "what Secret gone holds could not be taken out" in said
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        texts = {
            one.name.partition("/")[2]: archive.extractfile(one).read().decode()  # type: ignore[union-attr]
            for one in archive.getmembers()
        }
    assert not [name for name, text in texts.items() if "hunter2" in text]
    assert "last-applied" not in texts["jobset.json"] and '"A"' in texts["jobset.json"]
    assert [text for name, text in texts.items() if name.endswith("jax-tpu.log")] == [
        "with (redacted)\nMINE (redacted)\nOTHERS=(redacted)\n"
    ]
    assert "Secret gone" in texts["missing.txt"] and "bundled-env" not in texts["missing.txt"]
    assert texts["explanation.txt"].startswith("bundled in namespace default: SUCCEEDED")
    assert {"pods.json", "events.json", "cluster/nodes.json", "workloads.txt", "missing.txt"} <= set(texts)
    code, _, said = call("inspect", "bundled", "--to", str(file))
    assert code == 2 and f"{file} is there already" in said


def test_a_queue_that_is_missing_is_explained(api: Plain, call: Any) -> None:
    api.post(JOBSETS, jobset("queued", slices=1, pods=1, queue="nope"))
    api.eventually(WORKLOADS, lambda told: "doesn't exist" in json.dumps(told))
    _, out, _ = call("explain", "queued")
    assert "queued: QUEUED (Inadmissible" in out and "its queue nope is missing; it starts" in out
    assert "QUEUED  Inadmissible: LocalQueue nope doesn't exist" in call("list", "--status", "QUEUED")[1]


def test_why_a_queue_takes_nothing_is_said_by_what_is_behind_it(api: Plain, call: Any) -> None:
    kueue = "/apis/kueue.x-k8s.io/v1beta2"
    flavors = [{"name": "gone", "resources": [{"name": "cpu", "nominalQuota": 1}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    for kind, place, name, about in (
        ("ClusterQueue", "clusterqueues", "behind", spec),
        ("LocalQueue", "namespaces/default/localqueues", "front", {"clusterQueue": "behind"}),
    ):
        made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
        api.post(f"{kueue}/{place}", {**made, "spec": about})
    api.post(JOBSETS, jobset("kept", slices=1, pods=1, queue="front"))
    api.eventually(WORKLOADS, lambda told: "is inactive" in json.dumps(told))
    _, out, _ = call("explain", "kept")
    for place in ("clusterqueues/behind", "namespaces/default/localqueues/front"):
        api.delete(f"{kueue}/{place}")
    assert (
        "ClusterQueue behind condition Active: FlavorNotFound" in out and "refers to what is missing" in out
    )


@pytest.mark.parametrize("ahead_s", [-3600, 3600])
def test_how_long_something_takes_is_judged_by_the_clock_of_the_cluster(
    api: Plain, cluster: KubernetesStandIn, call: Any, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    ages: list[float] = []

    def troubles(scene: KubeScene) -> list[Trouble]:
        ages.append(scene.now - (created_at(scene.objects.jobset) or 0.0))
        return kube_troubles(scene)

    monkeypatch.setattr("tasks.stages.workload_explained.kube_troubles", troubles)
    cluster.tell("skew", seconds=ahead_s)
    try:
        api.post(JOBSETS, jobset("fresh", slices=1, pods=1, queue="nope"))
        assert call("explain", "fresh")[0] == 0
        cluster.tell("skew", seconds=ahead_s + 5000)
        assert call("explain", "fresh")[0] == 0
    finally:
        cluster.tell("skew", seconds=0)
    assert -2 < ages[0] < 600
    assert ages[1] - ages[0] == pytest.approx(5000, abs=600)


def test_a_priority_class_that_is_missing_is_explained(api: Plain, call: Any) -> None:
    labels = {"kueue.x-k8s.io/priority-class": "urgent"}
    api.post(JOBSETS, jobset("hurried", slices=1, pods=1, queue="nope", labels=labels))
    api.eventually(JOBSETS, lambda told: told["items"])
    _, out, _ = call("explain", "hurried")
    assert "there is no priority class urgent: Kueue never queues it" in out


@pytest.mark.parametrize("name", case_names())
def test_every_command_that_is_advised_is_one(name: str) -> None:
    for trouble in kube_troubles(case(name).scene()):
        for command in trouble.next:
            if "…" not in command and not command.startswith("kubectl "):
                words = shlex.split(command.partition("   #")[0].replace(" N", " 2"))
                app.parse_args(words[1:], exit_on_error=False, print_error=False)
