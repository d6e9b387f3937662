"""`encryption:` and `sidecar:` of a target: what is taken, and what is refused where it stands, and early."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

from runtime.contract.errors import BadInput
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.sidecar import Encryption
from tasks.config.sidecar_in_pods import exposed
from tasks.targets.interpreter import PROXY_PACKAGES
from tasks.targets.target_file import checked_target

ROOT = Path(__file__).parents[3]
KMS = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
LOCAL = "kind: local\nworkers: 1\n"
POD = "  name: go-gcsproxy\n  image: docker.io/me/go-gcsproxy:v0.3\n"


def test_buckets_and_keys_are_all_it_takes(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(
        f"{LOCAL}encryption:\n  keys: {{my-bucket: {KMS}, my-bucket/raw: 'file:/k/raw.json', '*': gcp-kms://{KMS}2}}\n"
        "  old_keys: [file:/k/old.json]\n"
    )
    encryption = checked_target(file).encryption
    assert encryption is not None
    uris = [key.uri for key in encryption.all_keys]
    assert uris == [f"gcp-kms://{KMS}", "file:raw.json", f"gcp-kms://{KMS}2", "file:old.json"]
    key = encryption.key_map.key("my-bucket", "raw/x")
    assert key is not None and key.path == Path("/k/raw.json")


def test_a_choice_of_workers_leaves_it_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(f"kind: local\nencryption: {{keys: {{my-bucket: {KMS}}}}}\n")
    config = checked_target(file)
    assert config.with_choices(1, None).encryption == config.encryption == Encryption(keys={"my-bucket": KMS})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("encryption: {}\n", ":3:1: encryption: keys: names no bucket"),
        ("encryption:\n  keys: {b: x}\n", ":4:3: keys: 'x' is no key: write bucket"),
        ("encryption:\n  keys: {B: 'file:/k'}\n", "'B' cannot be a bucket's name"),
        (f"encryption:\n  keys: {{bkt: {KMS}/cryptoKeyVersions/1}}\n", "names a version"),
        ("encryption:\n  keys: {bkt: 'file:k.json'}\n", "has no absolute path"),
        ("encryption:\n  keys: {bkt: 'file:/a,b'}\n", "has a comma"),
        ("encryption:\n  keys: {bkt: 'file:/a/k', '*': 'file:/b/k'}\n", "have the same name"),
        ("encryption:\n  keys: {bkt: 'file:/k'}\n  old_keys: [x]\n", ":5:14: "),
        ("encryption:\n  key: {bkt: 'file:/k'}\n", ":4:3: unknown key 'key', did you mean 'keys'?"),
        ("encryption:\n  keys: {bkt: 'file:/k'}\n  face: both\n", ":5:3: face must be reverse or forward"),
        ("encryption:\n  keys: {bkt: 'file:/k'}\n  allow: [a.com]\n", "allow: is for face: forward"),
        (
            "encryption:\n  keys: {bkt: 'file:/k'}\nsidecar: {name: x, command: [x]}\n",
            "encryption: and sidecar: would both stand between workers and storage",
        ),
        (
            f"sidecar:\n{POD}",
            "t.yaml:3:1: target: sidecar: has an image, which only pods can run: add command",
        ),
        ("sidecar: {name: x}\n", "say what to run: command"),
        (
            "encryption:\n  keys: {bkt: 'file:/k'}\n  memory: 1GiB\n",
            "encryption: cpu: and memory: are asked for in pods",
        ),
        (
            "sidecar: {name: x, command: [x], cpu: 1}\n",
            "sidecar: cpu: and memory: are asked for in pods alone",
        ),
        ("sidecar: {name: x, command: [x], memory: 1}\n", "memory must be"),
        ("sidecar: {name: X, command: [x]}\n", ":3:11: name must be a name of a-z"),
        ("sidecar: {name: x, command: [x], env: {API_TOKEN: abc}}\n", "API_TOKEN sounds like a secret"),
        ("sidecar: {name: x, command: [x], workload_env: {SLICEBENCH_X: abc}}\n", "belongs to slicebench"),
        ("sidecar: {name: x, command: [x], ready: {file: /x, path: /y}}\n", "file: is enough by itself"),
        ("sidecar: {name: x, command: [x], ready: {path: y}}\n", "path must be a path of a URL"),
        (
            "sidecar: {name: x, command: [x, 'http://{adress}:1']}\n",
            ":3:33: command: {adress} is not a placeholder here: write {address}, or write {{adress}} for {adress}",
        ),
        (
            "sidecar: {name: x, command: [x], env: {AT: '{zone}'}}\n",
            "{zone} is not a placeholder here: the placeholders are {address}, {admin}, {certificates}, {forward},",
        ),
        ("sidecar: {name: x, command: [x], workload_env: {AT: '{part}'}}\n", "write {port}, or"),
        ("sidecar: {name: x, command: [x], ready: {path: '/{up}'}}\n", "{up} is not a placeholder"),
        (
            "sidecar: {name: x, command: [x], ready: {file: '{certificates}/{ca}'}}\n",
            "{ca} is not a placeholder",
        ),
    ],
)
def test_what_is_wrong_is_told_at_its_place(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(LOCAL + text)
    with pytest.raises(BadInput) as refusal:
        checked_target(file)
    assert told in str(refusal.value)
    assert "abc" not in str(refusal.value)


PODS = "kind: gke\ncontext: c\ntype: cpu\nnodes: 1\n"
HEAD = "cluster: {name: c, capacity: spot}\ntype: v5litepod-16\npathways: {server_image: 's:1', proxy_image: 'p:1'}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            f"{PODS}sidecar: {{name: worker, image: i}}\n",
            ":5:1: target: sidecar: is called worker in pods, and so is the",
        ),
        (
            f"{PODS}container_name: encryption\nencryption: {{keys: {{bkt: {KMS}}}}}\n",
            ":6:1: target: encryption: is called",
        ),
        (
            f"{PODS}containers_per_host: 2\nsidecar: {{name: worker-2, image: i}}\n",
            "so is the workers' container",
        ),
        (
            f"{PODS}ops_agent: {{}}\nsidecar: {{name: ops-agent, image: i}}\n",
            "so is the container of ops_agent:",
        ),
        (
            f"{PODS}debug_dump: {{to: 'gs://bkt/d'}}\nsidecar: {{name: xla-dump, image: i}}\n",
            "the container of debug_dump:",
        ),
        (
            f"kind: gke\n{HEAD}sidecar: {{name: pathways-rm, image: i}}\n",
            "and so is a server of Pathways: write another name:",
        ),
        (
            f"{PODS}sidecar: {{name: gke-gcsfuse-sidecar, image: i}}\n",
            "a container that clusters put into pods",
        ),
        (
            f"{PODS}sidecar: {{name: x, command: [x, '127.0.0.1:{{port}}']}}\n",
            "where the cluster cannot ask it",
        ),
        (
            f"{PODS}sidecar: {{name: x, image: i, port: 80, env: {{AT: 'localhost:80'}}}}\n",
            "where the cluster cannot ask it",
        ),
        (
            f"{PODS}sidecar: {{name: x, command: [x, '127.0.0.1:9'], ready: {{port: 9}}}}\n",
            "where the cluster cannot ask it",
        ),
    ],
)
def test_what_cannot_stand_in_pods_is_told_at_its_place(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as refusal:
        checked_target(file)
    assert told in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("sidecar: {name: x, command: [x, '{address}:{port}']}\n", True),
        ("sidecar: {name: x, command: [x, '{address}:{port}']}\nhost_network: true\n", False),
        ("sidecar: {name: x, command: [x, '127.0.0.1:{port}']}\nhost_network: true\n", False),
        ("sidecar: {name: x, command: [x, '127.0.0.1:{port}'], ready: {file: /x}}\n", False),
        ("sidecar: {name: x, command: [x, '127.0.0.1:{port}'], ready: {port: 9}}\n", False),
        ("sidecar: {name: x, command: [x, '127.0.0.1:80'], port: 8, ready: {path: /up}}\n", True),
        (f"encryption: {{keys: {{bkt: {KMS}}}}}\n", False),
    ],
)
def test_who_may_reach_it_is_known_from_where_it_is_asked(tmp_path: Path, text: str, warned: bool) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(PODS + text)
    config = checked_target(file)
    assert isinstance(config, GkeTargetConfig)
    assert bool(exposed(config)) is warned


def test_one_port_is_not_for_several_workers_of_one_machine(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("kind: local\nsidecar: {name: x, command: [x], port: 9080}\n")
    with pytest.raises(BadInput, match="one port for several workers"):
        checked_target(file)


def test_the_packages_of_the_proxy_are_the_same_everywhere() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["proxy"]
    wanted = [
        line for line in (ROOT / "runtime/requirements-proxy.in").read_text().splitlines() if line[0] != "#"
    ]
    assert wanted == extra
    assert [line.partition("[")[0].partition(">")[0] for line in wanted] == list(PROXY_PACKAGES)


def test_go_gcsproxy_can_be_written_down(tmp_path: Path) -> None:
    """What its own acceptance uses (facts of v0.3): a forward proxy, its certificate, its variables."""
    told = {
        "kind": "local",
        "workers": 1,
        "sidecar": {
            "name": "go-gcsproxy",
            "image": "docker.io/me/go-gcsproxy:v0.3",
            "command": ["go-gcsproxy", "-addr", ":9080"],
            "env": {
                "PROXY_CERT_PATH": "{certificates}/mitmproxy-ca-cert.pem",
                "GCP_KMS_BUCKET_KEY_MAPPING": f"*:{KMS}",
                "SSL_INSECURE": "false",
            },
            "port": 9080,
            "certificates": "/proxy/certs",
            "ready": {"file": "/proxy/certs/mitmproxy-ca-cert.pem"},
            "workload_env": {
                "https_proxy": "http://127.0.0.1:{port}",
                "REQUESTS_CA_BUNDLE": "{certificates}/mitmproxy-ca-cert.pem",
            },
        },
    }
    file = tmp_path / "t.yaml"
    file.write_text(yaml.safe_dump(told))
    assert checked_target(file).sidecar is not None
