"""`slicebench workload create` as a user runs it, against a cluster whose pods are processes of this machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from flows.cli.main import main
from tasks.stages import workload_earlier
from tests.cloud.kubernetes.client import JOBSETS, PODS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.flows.cli.submitting import IMAGE, SECRETS, STAYS, emptied, python, three_hosts, words_of
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[3]
GONE = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "held", "uid": "gone"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    with three_hosts(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def api(cluster: KubernetesStandIn) -> Iterator[Plain]:
    with emptied(cluster) as plain:
        yield plain


@pytest.fixture
def create(cluster: KubernetesStandIn, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command; returns its exit code, what it printed and what it said."""

    def run(name: str, *more: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(words_of(cluster, name, *more))
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_a_command_is_submitted_and_what_comes_next_is_said(api: Plain, create: Any) -> None:
    code, out, said = create("plain-1", "--slices", "2", "--ttl", "1h", "--command", "python -c 'print(1)'")
    assert (code, out) == (0, "plain-1\n")
    assert "it runs on without us" in said and "slicebench workload delete plain-1 --context standin" in said
    spec = api.get(f"{JOBSETS}/plain-1")["spec"]
    assert spec["ttlSecondsAfterFinished"] == 3600 and spec["replicatedJobs"][0]["replicas"] == 2
    assert api.ended("plain-1")["status"]["terminalState"] == "Completed"


def test_waiting_shows_each_workers_lines_and_ends_with_the_programs_code(api: Plain, create: Any) -> None:
    secret = "hunter2-and-more"
    program = "import os, sys; print('I am', os.environ['JOB_INDEX'], os.environ['API_TOKEN']); sys.exit(7)"
    code, out, said = create("waits-7", "--wait", "--env", f"API_TOKEN={secret}", *python(program))
    assert (code, out.splitlines()[0].startswith("[slice-job-0-0-")) == (7, True)
    assert "I am 0 (redacted)" in out and secret not in out + said
    assert "exited with 7" in said and "next: slicebench workload explain waits-7" in said
    code, out, _ = create("waits-0", "--wait", "--json", *python("print('x')"))
    told = json.loads(out)
    assert (code, told["exit_code"], told["workload"], told["image"]) == (0, 0, "waits-0", IMAGE)
    assert "error" not in told
    code, out, _ = create("waits-8", "--wait", "--json", *python("raise SystemExit(2)"))
    assert code == 2 and "container worker exited with 2" in json.loads(out)["error"]


@pytest.fixture
def beside(cluster: KubernetesStandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command with a sidecar beside a program: both are lines of Python."""

    def run(name: str, sidecar: str, program: str, *more: str) -> tuple[int, str, str]:
        made = {
            "kind": "gke",
            "context": "standin",
            "kubeconfig": str(cluster.kubeconfig),
            "type": "cpu",
            "nodes": 1,
            "queue": None,
            "priority": None,
            "shared": {"directory": "/both", "host_path": str(tmp_path)},
            "sidecar": {
                "name": "proxy",
                "command": ["python", "-u", "-c", sidecar],
                "certificates": "/certificates",
                "env": {"AT": "{certificates}/ca.pem", "MARK": f"{tmp_path}/mark"},
                "ready": {"file": "{certificates}/ca.pem"},
                "workload_env": {"AT": "{certificates}/ca.pem"},
            },
        }
        (tmp_path / "beside.yaml").write_text(yaml.safe_dump(made))
        cluster.set(backoff_s=0.05)
        capsys.readouterr()
        target = ["--target", str(tmp_path / "beside.yaml"), "--docker-image", IMAGE]
        code = main(["workload", "create", name, *target, "--wait", *more, *python(program)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_what_stands_beside_a_program_may_die_and_is_told_of_and_started_again(
    beside: Any, api: Plain
) -> None:
    sidecar = (
        "import os, pathlib, sys, time\nat, mark = pathlib.Path(os.environ['AT']), pathlib.Path(os.environ['MARK'])\n"
        "if mark.exists(): at.write_text('second'); time.sleep(99)\n"
        "at.write_text('first')\nwhile not mark.exists(): time.sleep(0.02)\nprint('no memory'); sys.exit(9)\n"
    )
    program = (
        "import os, pathlib, time\nat = pathlib.Path(os.environ['AT'])\nprint(at.read_text(), flush=True)\n"
        "open('/both/mark', 'w').close()\nwhile at.read_text() != 'second': time.sleep(0.02)\nprint('second')\n"
    )
    code, out, said = beside("dies", sidecar, program)
    assert code == 0 and [line.split("] ")[1] for line in out.splitlines()[:2]] == ["first", "second"]
    assert "no memory" not in out
    (line,) = [line for line in said.splitlines() if "sidecar: ended; pod dies-slice-job-0-0-" in line]
    assert "container proxy exited with 9, 1 end by now" in line and line.endswith("it said last: no memory")


def test_a_program_that_never_begins_for_what_is_to_stand_beside_it_is_not_waited_for(
    beside: Any, api: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it said last is told without the secrets that it was given."""
    monkeypatch.setenv("API_TOKEN", "hunter2-and-more")
    sidecar = "import os; print('no key for', os.environ['API_TOKEN']); raise SystemExit(2)"
    code, out, said = beside("never", sidecar, "pass", "--json", "--env", "API_TOKEN")
    assert code == 3 and json.loads(out)["exit_code"] == 3
    error = json.loads(out)["error"]
    assert "container proxy: it ended" in error and "said last: no key for (redacted)" in error
    assert "hunter2" not in out + said
    assert "it is there until it is deleted" in said and "slicebench workload delete never" in said
    assert api.names(JOBSETS) == ["never"]


def test_who_does_not_wait_is_told_that_nobody_looks_whether_a_sidecar_comes_up(
    beside: Any, api: Plain
) -> None:
    code, out, said = beside("alone", "import time; time.sleep(99)", "pass", "--no-wait")
    assert (code, out) == (0, "alone\n")
    assert "its program begins once proxy is up" in said and "submit with --wait" in said


def test_nobody_waits_longer_than_he_said(api: Plain, create: Any) -> None:
    code, _, said = create("limited", "--wait", "--wait-limit", "1s", *python(STAYS))
    assert code == 3 and "has not ended within 1 s; it runs on" in said
    assert api.names(JOBSETS) == ["limited"]


def test_who_interrupts_the_waiting_leaves_the_workload_and_is_told_how_to_delete_it(
    api: Plain, cluster: KubernetesStandIn
) -> None:
    words = words_of(cluster, "left", "--wait", *python(STAYS))
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.cli.main", *words],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "up" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "no longer waited for; it runs on" in said and "slicebench workload delete left" in said
    assert api.names(JOBSETS) == ["left"] and len(cluster.processes()) == 1


def test_names_are_made_where_none_is_given(api: Plain, create: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "9Jan.Øre-with-a-name-that-is-far-too-long-for-pods")
    code, out, _ = create("", *python("pass"))
    [name] = api.names(JOBSETS)
    assert (code, out) == (0, f"{name}\n") and name.startswith("jan--re-with") and len(name) <= 43


@pytest.mark.parametrize(
    ("name", "more", "wrong"),
    [
        ("Bad_Name", ["--", "x"], "cannot be the name of a JobSet"),
        ("a" * 44, ["--", "x"], "has 44 characters, and at most 43"),
        ("n", [], "say one command"),
        ("n", ["--command", "x", "--", "y"], "say one command"),
        ("n", ["--command", "python 'a"], "No closing quotation"),
        ("n", ["--command", ""], "--command is empty"),
        ("n", ["--script-dir", ".", "--", "x"], "--docker-image is taken as it is, and --script-dir"),
        ("n", ["--type", "v5e-banana", "--", "x"], "v5e-banana"),
        ("n", ["--type", "v5litepod-16", "--topology", "2x2x2", "--", "x"], "2x2x2"),
        ("n", ["--slices", "0", "--", "x"], "slices"),
        ("n", ["--slices", "many", "--", "x"], "--slices must be a whole number, not many"),
        ("n", ["--nosuch", "--", "x"], "Unknown option: --nosuch, see"),
        ("n", ["--comand", "x"], "Unknown option: --comand, did you mean --command"),
        ("n", ["--deadline", "5", "--", "x"], "--deadline: '5' is no length of time: write 90s"),
        ("n", ["--deadline", "-5m", "--", "x"], "--deadline: '-5m' is no length of time: write 90s"),
        ("n", ["--ttl", "60", "--", "x"], "--ttl: '60' is no length of time"),
        ("n", ["--wait", "--wait-limit", "5", "--", "x"], "--wait-limit: '5' is no length of time"),
        ("n", ["--env", "-x", "--", "x"], "-x looks like a flag: write --env=-x if it is none"),
        ("n", ["--grace", "soon", "--", "x"], "--grace: 'soon' is no length of time"),
        ("n", ["--env", "1A=b", "--", "x"], "is not the name of a variable"),
        (
            "n",
            ["--env", "JOB_INDEX=7", "--", "x"],
            "JOB_INDEX is set by slicebench itself in each pod, with another",
        ),
        ("n", ["--env", "TPU_WORKER_ID=7", "--", "x"], "TPU_WORKER_ID is set by GKE in each pod"),
        ("n", ["--env", "KUBERNETES_SERVICE_HOST=h", "--", "x"], "is set by Kubernetes in each pod"),
        ("n", ["--restart-on-exit-codes", "0", "--max-restarts", "1", "--", "x"], "no exit code"),
        ("n", ["--restart-on-user-code-failure", "--", "x"], "nothing is started again"),
        ("n", ["--wait-limit", "5m", "--", "x"], "add --wait"),
        ("n", ["--mtc-enabled", "--", "x"], "say both"),
        ("n", ["--cluster", "c", "--", "x"], "--context and --cluster name a cluster each"),
        ("n", ["--queue", "nope", "--", "x"], "has no queue nope"),
        ("n", ["--priority", "urgent", "--", "x"], "write another --priority, or --priority none"),
        (
            "n",
            ["--service-account", "robot", "--", "x"],
            "kubectl create serviceaccount robot --namespace default, or write another --service-account",
        ),
        ("n", ["--namespace", "nowhere", "--", "x"], "nowhere"),
        ("n", ["--container-name", "No", "--", "x"], "--container-name must be a name of a-z"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_made(
    api: Plain, create: Any, name: str, more: list[str], wrong: str
) -> None:
    code, out, said = create(name, *more)
    assert (code, out) == (2, "") and wrong in said
    assert not api.names(JOBSETS) and not api.names(SECRETS)


def test_which_image_must_be_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLICEBENCH_REPOSITORY", raising=False)
    assert main(["workload", "create", "n", "--context", "c", "--type", "cpu", "--", "x"]) == 2
    assert "which image? --docker-image names one, or --repository" in capsys.readouterr().err
    words = ["workload", "create", "n", "--context", "c", "--type", "cpu", "--repository", "localhost:5001"]
    assert main([*words, "--dry-run", "--", "x"]) == 2
    assert "names no repository in it, write localhost:5001/NAME" in capsys.readouterr().err


def test_a_name_that_is_taken_is_refused(api: Plain, create: Any) -> None:
    assert create("taken", *python(STAYS))[0] == 0
    code, _, said = create("taken", *python(STAYS))
    assert code == 2 and "there is a workload taken in namespace default" in said
    assert "slicebench workload delete taken" in said


def test_the_same_name_again_waits_until_the_old_pods_have_ended(api: Plain, create: Any) -> None:
    saves = "import signal, time; signal.signal(15, lambda *a: (time.sleep(1), exit(0)));"
    saves += "print('up', flush=True); time.sleep(99)"
    assert create("again", *python(saves))[0] == 0
    until(lambda: "up" in "".join(api.text(f"{PODS}/{one}/log") for one in _running(api)))
    [old] = api.names(PODS)
    api.delete(f"{JOBSETS}/again")
    code, _, said = create("again", "--wait", *python("print('new')"))
    assert code == 0 and "waiting for 1 pod of an earlier workload again" in said
    assert old not in api.names(PODS)


def test_the_secret_of_an_earlier_one_is_waited_for(
    api: Plain, create: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes when the cluster gets round to it, which here is as soon as somebody waits."""
    held = {"name": "held-env", "finalizers": ["test/held"], "ownerReferences": [GONE]}
    api.post(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": held})
    let_go = lambda s: api.patch(f"{SECRETS}/held-env", {"metadata": {"finalizers": None}})  # noqa: E731
    monkeypatch.setattr(workload_earlier, "time", SimpleNamespace(sleep=let_go, monotonic=time.monotonic))
    code, _, said = create("held", "--env", "MY_TOKEN=x", *python("pass"))
    assert code == 0 and "waiting for Secret held-env of an earlier workload held" in said


def test_a_secret_of_somebody_else_is_in_the_way_before_anything_is_made(api: Plain, create: Any) -> None:
    api.post(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs-env"}})
    code, _, said = create("theirs", "--env", "MY_TOKEN=x", *python("pass"))
    api.delete(f"{SECRETS}/theirs-env")
    assert (
        code == 2 and "there is a Secret theirs-env in namespace default" in said and not api.names(JOBSETS)
    )


def _running(api: Plain) -> list[str]:
    return [one["metadata"]["name"] for one in api.get(PODS)["items"] if one["status"]["phase"] == "Running"]


def test_a_reply_that_is_lost_makes_nothing_twice(
    api: Plain, create: Any, cluster: KubernetesStandIn
) -> None:
    cluster.calls()
    cluster.fault(verb="create", kind="jobsets", action="lose_reply")
    code, out, _ = create("lost", *python("pass"))
    assert (code, out) == (0, "lost\n")
    assert api.names(JOBSETS) == ["lost"]
    assert cluster.calls().count("create jobsets default/lost") == 1


def test_secrets_go_into_a_secret_that_goes_with_the_workload(
    api: Plain, create: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MINE", "of-the-caller")
    file = tmp_path / "env"
    file.write_text('A="quoted"\nHF_TOKEN=hunter2\n')
    program = "import os; print(*(os.environ[name][::-1] for name in ('HF_TOKEN', 'MINE', 'A')))"
    code, out, said = create("hidden", "--wait", "--env-file", str(file), "--env", "MINE", *python(program))
    assert code == 0 and '2retnuh rellac-eht-fo "detouq"' in out
    assert "hunter2" not in json.dumps(api.get(f"{JOBSETS}/hidden")) + said
    [owner] = api.get(f"{SECRETS}/hidden-env")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("JobSet", "hidden")


def test_without_its_secret_a_workload_is_not_left(
    api: Plain, create: Any, cluster: KubernetesStandIn
) -> None:
    cluster.fault(verb="create", kind="secrets", action="error", code=403, times=9)
    code, _, said = create("half", "--env", "MY_TOKEN=x", *python("pass"))
    assert code == 3 and "Secret half-env" in said
    api.eventually(JOBSETS, lambda told: not told["items"])


def test_the_manifest_is_shown_without_any_cluster(create: Any) -> None:
    code, out, _ = create("shown", "--dry-run", "--env", "A_TOKEN=hunter2", "--command", "a && b")
    shown = yaml.safe_load(out)
    pod = shown["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert (code, pod["containers"][0]["command"][:2]) == (0, ["bash", "-c"])
    assert "hunter2" not in out
    _, as_json, _ = create("shown", "--dry-run", "--json", "--command", "a && b")
    assert json.loads(as_json)["spec"].keys() == shown["spec"].keys()


def test_a_program_hears_of_its_end_at_once(
    api: Plain, create: Any, cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    # Once more where it was not: a machine that others use may be late. xpk's wrapper hands a signal on after up to
    # 5 s, and sees the end up to 5 s later.
    took = (seconds_to_hear_and_go(api, create, f"hears-{n}", tmp_path / str(n)) for n in range(5))
    assert any(heard_s < 2 and gone_s < 2 for heard_s, gone_s in took)


def seconds_to_hear_and_go(api: Plain, create: Any, name: str, mark: Path) -> tuple[float, float]:
    """Deletes a workload; returns after how long its program heard of that, and how long after that it was gone."""
    program = (
        "import pathlib, signal, time\n"
        f"mark = pathlib.Path({str(mark)!r})\n"
        "signal.signal(15, lambda *a: (mark.write_text(repr(time.time())), exit(0)))\n"
        "mark.write_text('ready')\n"
        "time.sleep(99)"
    )
    assert create(name, "--grace", "20s", *python(program))[0] == 0
    until(lambda: mark.exists() and mark.read_text() == "ready")
    asked = time.time()
    api.delete(f"{JOBSETS}/{name}")
    api.eventually(PODS, lambda told: not told["items"])
    heard, gone = float(mark.read_text()), time.time()
    return heard - asked, gone - heard


def test_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "create", "--help"]) == 0
    assert "--restart-on-exit-codes" in capsys.readouterr().out
