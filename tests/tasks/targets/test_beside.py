"""From a target's file to what supervisors are told: the proxy's command, its keys, and what is recorded of them."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.braces import filled
from runtime.contract.errors import BadInput
from runtime.contract.job import Job
from runtime.contract.sidecar import straight
from runtime.gcs_proxy.keys import make_key_file
from runtime.gcs_proxy.options import add_options, settings
from tasks.config.sidecar import Encryption
from tasks.config.target import LocalTargetConfig
from tasks.targets.beside import beside, key_files, recorded, uncovered

KMS = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
KNOWN = {
    "lend": "own",
    "held": "own",
    "port": 4001,
    "admin": 4002,
    "python": "/py",
    "store": "https://store",
    "files": "/secret",
}
KNOWN |= {"certificates": "/shared", "address": "127.0.0.1"}


def target(**fields: Any) -> LocalTargetConfig:
    return LocalTargetConfig.model_validate({"kind": "local", "workers": 1, **fields})


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key_file(tmp_path / "key.json")
    return tmp_path / "key.json"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_proxy_takes_what_it_is_told(key: Path, elsewhere: bool) -> None:
    keys = {"bkt": f"gcp-kms://{KMS}", "bkt/raw": f"file:{key}"}
    made = beside(target(encryption={"keys": keys, "old_keys": [f"{KMS}-old"]}), elsewhere=elsewhere)
    assert made is not None and made.guards
    words = [filled(word, KNOWN) for word in made.command]
    assert words[:3] == ["/py", "-m", "runtime.gcs_proxy"]
    parser = argparse.ArgumentParser()
    add_options(parser)
    told = settings(
        parser.parse_args(words[3:]), {name: filled(value, KNOWN) for name, value in made.env.items()}
    )
    assert (told.listen, told.admin, told.upstream) == (
        ("127.0.0.1", 4001),
        ("127.0.0.1", 4002),
        "https://store",
    )
    raw = told.key_map.key("bkt", "raw/x")
    assert raw is not None and raw.path == (Path("/secret/key.json") if elsewhere else key)
    assert [one.uri for one in told.old_keys] == [f"gcp-kms://{KMS}-old"]
    assert told.mounted_keys is False
    assert made.files == ({"key.json": key.read_text()} if elsewhere else {})
    assert filled(made.ready, KNOWN) == "http://127.0.0.1:4002/readyz"
    assert filled(made.workload_env["STORAGE_EMULATOR_HOST"], KNOWN) == "http://127.0.0.1:4001"


def test_programs_that_know_a_proxy_alone_are_led_there_too() -> None:
    encryption = {"keys": {"bkt": KMS}, "face": "forward", "allow": ["huggingface.co", "*.pypi.org:443"]}
    made = beside(target(encryption=encryption), elsewhere=False)
    assert made is not None
    known = {**KNOWN, "forward": 4003}
    words = [filled(word, known) for word in made.command]
    parser = argparse.ArgumentParser()
    add_options(parser)
    told = settings(parser.parse_args(words[3:]), dict(made.env))
    assert told.forward is not None and told.forward.listen == ("127.0.0.1", 4003)
    assert told.forward.certificates == Path("/shared") and len(told.forward.allowed) >= 2
    env = {name: filled(value, known) for name, value in made.workload_env.items()}
    assert env["https_proxy"] == env["HTTPS_PROXY"] == "http://127.0.0.1:4003"
    assert env["SSL_CERT_FILE"] == env["REQUESTS_CA_BUNDLE"] == "/shared/ca-bundle.pem"
    assert env["grpc_proxy"] == "" and env["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:4001"
    assert "http_proxy" not in env


@pytest.mark.parametrize(
    ("env", "no_proxy"),
    [
        ({}, None),
        ({"no_proxy": "a"}, None),
        ({"HTTP_PROXY": "http://corp"}, "127.0.0.1,localhost"),
        ({"https_proxy": "http://corp", "NO_PROXY": "metadata"}, "metadata,127.0.0.1,localhost"),
    ],
)
def test_no_other_proxy_stands_between(env: dict[str, str], no_proxy: str | None) -> None:
    told = straight(env)
    assert (told.get("no_proxy"), told.get("NO_PROXY")) == (no_proxy, no_proxy)


def test_it_may_pass_everything() -> None:
    made = beside(target(encryption={"enabled": False}), elsewhere=False)
    assert made is not None and "--no-encryption" in made.command and not made.guards


def test_of_keys_their_names_are_recorded_and_nothing_else(key: Path) -> None:
    config = target(encryption={"keys": {"bkt": KMS, "bkt/raw": f"file:{key}"}})
    told = recorded(config)
    assert json.loads(told) == {
        "name": "encryption",
        "series": "encrypted by Cloud KMS and a key file",
        "keys": {"bkt": f"gcp-kms://{KMS}", "bkt/raw": "file:key.json"},
    }
    assert json.loads(recorded(target(encryption={"enabled": False})))["series"] == "proxy without encryption"
    other = target(sidecar={"name": "mitm", "command": ["mitm"]})
    assert json.loads(recorded(other)) == {"name": "mitm", "series": "mitm", "keys": {}}
    assert recorded(target()) == ""


@pytest.mark.parametrize(
    ("ready", "where"),
    [
        ({}, "tcp://127.0.0.1:4001"),
        ({"port": 9081}, "tcp://127.0.0.1:9081"),
        ({"path": "/up"}, "http://127.0.0.1:4001/up"),
        ({"path": "/up", "port": 9081}, "http://127.0.0.1:9081/up"),
        ({"file": "/certs/ca.pem"}, "file:///certs/ca.pem"),
        ({"file": "{certificates}/ca.pem"}, "file:///shared/ca.pem"),
    ],
)
def test_how_another_sidecar_is_seen_to_be_up(ready: dict[str, Any], where: str) -> None:
    made = beside(target(sidecar={"name": "x", "command": ["x"], "ready": ready}), elsewhere=False)
    assert made is not None and filled(made.ready, KNOWN) == where


@pytest.mark.parametrize(
    ("keys", "output", "told"),
    [
        ({"bkt": KMS}, "gs://bkt/runs", ""),
        ({"bkt/runs": KMS}, "gs://bkt/runs", ""),
        ({"bkt/runs/": KMS}, "gs://bkt/runs", ""),
        ({"*": KMS}, "gs://other/runs", ""),
        ({"bkt": KMS}, "/local", ""),
        (
            {"bkt": KMS},
            "gs://other/runs",
            "gs://other/runs is in no place that encryption: has a key for (bkt)",
        ),
        ({"bkt/runs/a": KMS}, "gs://bkt/runs", "gs://bkt/runs is in no place"),
        ({"bkt/run-": KMS}, "gs://bkt/run-{run}", ""),
        ({"bkt/run-": KMS}, "gs://bkt/run-a-{run}/x", ""),
        ({"bkt": KMS}, "gs://bkt/{run}", ""),
        ({"bkt/run-": KMS}, "gs://bkt/{run}", "gs://bkt/{run} is in no place"),
        ({"bkt/run-a": KMS}, "gs://bkt/run-{run}", "gs://bkt/run-{run} is in no place"),
        ({"bkt/{run}": KMS}, "gs://bkt/{run}", "gs://bkt/{run} is in no place"),
    ],
)
def test_an_output_without_a_key_is_told(keys: dict[str, str], output: str, told: str) -> None:
    found = uncovered(Encryption(keys=keys), output)
    assert found.startswith(told) and bool(found) is bool(told)
    assert ("what stands before it decides" in found) is ("{run} is in no place" in told)


def test_key_files_are_looked_at_before_anything_is_made(tmp_path: Path, key: Path) -> None:
    (tmp_path / "open.json").write_text(key.read_text())
    (tmp_path / "open.json").chmod(0o640)
    (tmp_path / "text.json").write_text("hunter2")
    names = ("key", "missing", "open", "text")
    places = {f"bkt/{name}": f"file:{tmp_path}/{name}.json" for name in names}
    found = [(problem.what, problem.fix) for problem in key_files(Encryption(keys=places))]
    assert found == [
        (
            f"the key file {tmp_path}/missing.json cannot be read: No such file or directory",
            f"python -m runtime.gcs_proxy new-key {tmp_path}/missing.json makes one",
        ),
        (f"others may read the key file {tmp_path}/open.json", f"chmod 600 {tmp_path}/open.json"),
        (f"{tmp_path}/text.json is no key file", "name a keyset of Tink, in JSON"),
    ]
    with pytest.raises(BadInput, match="others may read"):
        beside(target(encryption={"keys": {"bkt": f"file:{tmp_path}/open.json"}}), elsewhere=True)


def test_a_key_file_that_would_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in ("/dev/zero", f"{tmp_path}/pipe"):
        [problem] = key_files(Encryption(keys={"bucket": f"file:{path}"}))
        assert problem.what.endswith("is no regular file")


def test_a_job_file_has_it(tmp_path: Path, key: Path) -> None:
    made = beside(target(encryption={"keys": {"bkt": f"file:{key}"}}), elsewhere=True)
    job = Job("run", "l", 1, 0, 1, 0, "h:1", "t", "s", "c", "o", "sc", "py", "cpu", sidecar=made)
    (tmp_path / "job.json").write_text(job.to_json())
    read = Job.read(tmp_path / "job.json").sidecar
    assert read is not None and made is not None
    assert (list(read.command), dict(read.files)) == (list(made.command), dict(made.files))
