"""What pods fetch, and what is submitted: the same files the same archive, no secret anywhere but in the Secret."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from runtime.contract.names import SECRET_NAMES_VARIABLE, SUITE_FILE
from runtime.contract.pod import TOKEN_VARIABLE
from tasks.cloud.storage import open_folder
from tasks.targets.gke_send import pack, send_code, send_job
from tasks.targets.gke_submit import name_of_attempt, port_of, submission
from tasks.targets.kube_jobset import jobset, secret
from tasks.targets.types import Bundle, Image, Uploaded, Worker, Workers, Workload
from tests.tasks.targets.gke_runs import config

IMAGE = Image("container", "r/i@sha256:0", "python")
ENV = {"A": "seen", "MY_TOKEN": "hidden-1", SECRET_NAMES_VARIABLE: "MY_TOKEN"}


def test_the_same_files_are_the_same_archive_of_code_alone(tmp_path: Path) -> None:
    files = {}
    for name in ("code/runtime/b.py", "code/a.py", SUITE_FILE):
        (tmp_path / Path(name).name).write_text(name)
        files[name] = str(tmp_path / Path(name).name)
    first = pack(files)
    (tmp_path / "a.py").touch()
    assert pack(dict(reversed(files.items()))) == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert archive.getnames() == ["a.py", "runtime/b.py"]
    run = open_folder(str(tmp_path / "run"))
    name = send_code(run, Bundle(files, Workload("run", run.uri)))
    assert run.read(name) == first
    assert send_code(run, Bundle(files, Workload("run", run.uri))) == name
    (tmp_path / "a.py").write_text("other")
    assert send_code(run, Bundle(files, Workload("run", run.uri))) != name


def test_secrets_are_in_the_secret_and_nowhere_else(tmp_path: Path) -> None:
    run = open_folder(str(tmp_path / "run"))
    workload = Workload("run", run.uri, env=ENV, points=(1, 2))
    items = [Worker(index, index, f"w{index}") for index in range(2)]
    uploaded = Uploaded(SUITE_FILE, "pods/code-0.tgz", Workers(items, "w0", 1, "cpu"), IMAGE, workload)
    job = send_job(run, uploaded, 3, "run-e1", 60.0, None)
    told = json.loads(run.read(job) or b"")
    assert (told["attempt"], told["workers"], told["points"]) == (3, 2, [1, 2])
    assert (told["token"], told["env"]) == ("", {})

    asked = submission(config(), "js", IMAGE.reference, workload, job, {}, "of-supervisors")
    made = jobset(config(), asked)
    for text in (json.dumps(made), json.dumps(told)):
        assert "hidden-1" not in text
        assert "of-supervisors" not in text
    kept = secret(config(), asked, "uid")
    assert kept is not None
    assert kept["stringData"] == {"MY_TOKEN": "hidden-1", TOKEN_VARIABLE: "of-supervisors"}
    container = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert variables["A"] == "seen"
    assert variables["SLICEBENCH_RENDEZVOUS"] == f"js-slice-job-0-0.js:{port_of('js')}"
    assert container["command"] == ["python", "-m", "runtime.pod"]


def test_each_attempt_has_a_name_and_a_port_of_its_own() -> None:
    first, second = (name_of_attempt(config(), "run-1-e1", attempt) for attempt in (1, 2))
    assert (first, second) == ("sb-run-1-e1", "sb-run-1-e1-a2")
    assert port_of(first) != port_of(second)
    assert all(20_000 <= port_of(f"js-{number}") < 30_000 for number in range(200))
    named = config(workload_name="mine")
    assert [name_of_attempt(named, "run-1-e1", attempt) for attempt in (1, 2)] == ["mine", "mine-a2"]
    long = config(workload_name="m" * 43)
    assert len(name_of_attempt(long, "run-1-e1", 2)) <= 43
