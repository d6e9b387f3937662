"""`slicebench workload …` as a user runs it, against a cluster whose pods are processes of this machine."""

from __future__ import annotations

import errno
import json
import shlex
import tarfile
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import app
from tasks.cloud import local_storage
from tasks.explain.kube_rules import kube_troubles
from tests.cloud.kubernetes.client import JOBSETS, PODS, SECRETS, Plain
from tests.cloud.kubernetes.manifests import jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.flows.cli.workloads import STAYS, failing, running
from tests.tasks.kube_cases import case, case_names


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


def test_workloads_of_all_namespaces_are_listed_with_these(api: Plain, call: Any) -> None:
    """Whoever waits for a slice sees who has it, in whatever team's namespace."""
    code, _, said = call("list", "--all-namespaces", "--namespace", "default")
    assert (code, "leave one out" in said) == (2, True)
    assert "there is no workload in any namespace" in call("list", "--all-namespaces")[2]
    api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}})
    api.post(JOBSETS, jobset("mine", slices=1, pods=1))
    lab = JOBSETS.replace("/default/", "/lab/")
    api.post(lab, jobset("theirs", slices=1, pods=1))
    heading, *lines = call("list", "--all-namespaces")[1].splitlines()
    assert heading.split()[:2] == ["NAMESPACE", "NAME"]
    assert sorted(line.split()[:2] for line in lines) == [["default", "mine"], ["lab", "theirs"]]
    told = json.loads(call("list", "--all-namespaces", "--json")[1])
    assert told["namespace"] is None and {one["namespace"] for one in told["workloads"]} == {"default", "lab"}
    api.delete(f"{lab}/theirs")
    api.delete("/api/v1/namespaces/lab")


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


def test_a_bundle_holds_everything_but_secrets(
    api: Plain, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert call("inspect", "bundled", "--to", str(file), "--force")[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(local_storage, "sync", full_disk)
        code, _, said = call("inspect", "bundled", "--to", str(tmp_path / "other.tgz"))
    assert code == 3 and "No space left on device" in said
    assert not [one for one in tmp_path.iterdir() if "other" in one.name], "what fails leaves nothing"


def full_disk(file: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", case_names())
def test_every_command_that_is_advised_is_one(name: str) -> None:
    for trouble in kube_troubles(case(name).scene()):
        for command in trouble.next:
            if "…" not in command and not command.startswith("kubectl "):
                words = shlex.split(command.partition("   #")[0].replace(" N", " 2"))
                app.parse_args(words[1:], exit_on_error=False, print_error=False)
