"""What stands beside the workers in pods: a native sidecar with its probe, keys for it alone, and the way to it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput, ExitCode
from runtime.contract.names import sidecar_log
from runtime.contract.sidecar import AT_VARIABLE, CERTIFICATES_VARIABLE
from runtime.gcs_proxy.keys import make_key_file
from tasks.config.acceptance import Program
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.load import load_acceptance
from tasks.stages.run import exit_code_of
from tasks.stages.teardown import teardown
from tasks.stages.workload_create import Wanted, submission_of
from tasks.targets.beside import beside
from tasks.targets.beside_told import lines, standing
from tasks.targets.kube_asked import asked_by
from tasks.targets.kube_beside import told
from tasks.targets.kube_check import checked
from tasks.targets.kube_jobset import jobset, secret
from tasks.targets.kube_submission import Object
from tasks.targets.types import NeverUp
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.tasks.targets import gke_runs
from tests.tasks.targets.gke_runs import RUN, Pods, hold, play
from tests.tasks.targets.kube_made import IMAGE, config, main_of, pod_of, seen, submission

ROOT = Path(__file__).parents[3]
KMS = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
OTHER = {
    "name": "go-gcsproxy",
    "image": "r/go-gcsproxy:v0.3",
    "env": {"PROXY_CERT_PATH": "{certificates}/ca.pem", "GCP_KMS_BUCKET_KEY_MAPPING": f"*:{KMS}"},
    "port": 9080,
    "certificates": "/proxy/certs",
    "ready": {"file": "{certificates}/ca.pem"},
    "workload_env": {"https_proxy": "http://127.0.0.1:{port}", "SSL_CERT_FILE": "{certificates}/ca.pem"},
}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key_file(tmp_path / "key.json")
    return tmp_path / "key.json"


def sealed(key: Path, **more: Any) -> GkeTargetConfig:
    return config(encryption={"keys": {"bkt": KMS, "bkt/raw": f"file:{key}"}}, **more)


def made(target: GkeTargetConfig, **more: Any) -> tuple[Object, Object | None]:
    asked = submission(sidecar=beside(target, elsewhere=True), **more)
    return jobset(target, asked), secret(target, asked, "uid-1")


def test_the_proxy_is_a_native_sidecar_that_must_be_up(key: Path) -> None:
    whole, kept = made(sealed(key), supervised=True, secrets={"SLICEBENCH_TOKEN": "t", "MINE": "m"})
    assert checked(whole) == []
    pod = pod_of(whole)["spec"]
    (proxy,) = pod["initContainers"]
    assert (proxy["name"], proxy["image"], proxy["restartPolicy"]) == ("encryption", IMAGE, "Always")
    assert proxy["command"][:7] == [
        "python", "-m", "runtime.gcs_proxy", "--listen", "127.0.0.1:9081", "--admin", "127.0.0.1:9082",
    ]  # fmt: skip
    assert proxy["startupProbe"] == {
        "httpGet": {"path": "/readyz", "port": 9082, "host": "127.0.0.1"},
        "periodSeconds": 1, "timeoutSeconds": 3, "failureThreshold": 60,
    }  # fmt: skip
    env = seen(proxy)
    keys = "/var/run/slicebench/keys/key.json"
    assert env["GCP_KMS_BUCKET_KEY_MAPPING"] == f"bkt:gcp-kms://{KMS},bkt/raw:file:{keys}"
    assert env["MINE"] == "secret" and "SLICEBENCH_TOKEN" not in env
    assert kept is not None and kept["stringData"]["sidecar-0"] == key.read_text()
    (volume,) = [one for one in pod["volumes"] if one["name"] == "keys"]
    assert volume["secret"] == {
        "secretName": kept["metadata"]["name"],
        "items": [{"key": "sidecar-0", "path": "key.json"}],
        "defaultMode": 0o444,
    }, "an image may run as anybody: who sees it is said by who mounts it"
    assert {"name": "keys", "mountPath": keys.rpartition("/")[0], "readOnly": True} in proxy["volumeMounts"]
    assert "mounted" in proxy["command"]
    assert key.read_text() not in str(whole)
    worker = main_of(whole)
    assert "keys" not in {one["name"] for one in worker["volumeMounts"]}, "workers see no key"
    told = seen(worker)
    assert told[AT_VARIABLE] == "127.0.0.1:9081,127.0.0.1:9080"
    # The worker's supervisor, which writes the results, goes straight.
    assert "STORAGE_EMULATOR_HOST" not in told


@pytest.mark.parametrize(
    ("workers", "own", "asked"),
    [
        ({}, {}, {}),
        ({"cpu": "4", "memory": "8GiB"}, {}, {"cpu": "250m", "memory": str(128 << 20)}),
        ({"memory": "8GiB"}, {}, {"memory": str(128 << 20)}),
        ({"cpu": 4}, {"cpu": 2, "memory": "1GiB"}, {"cpu": "2", "memory": str(1 << 30)}),
    ],
)
def test_the_proxy_asks_by_itself_for_what_the_workers_ask_for_and_no_more(
    workers: dict[str, Any], own: dict[str, Any], asked: dict[str, str]
) -> None:
    """A queue that knows chips alone admits nothing that asks for memory; a quota of memory, nothing that does not."""
    whole, _ = made(config(encryption={"enabled": False, **own}, **workers))
    assert checked(whole) == []
    (proxy,) = pod_of(whole)["spec"]["initContainers"]
    assert proxy.get("resources", {}) == ({"requests": asked} if asked else {}), "and it has no limits"
    (pods,) = asked_by(whole)
    chips = pods.each.keys() - {"cpu", "memory"}
    assert pods.each.keys() == chips | asked.keys(), "what Kueue counts of it"


def test_what_another_program_asks_for_is_what_its_target_says() -> None:
    for own, resources in (({}, {}), ({"cpu": "500m"}, {"requests": {"cpu": "500m"}})):
        whole, _ = made(config(sidecar={**OTHER, **own}, cpu="4", memory="8GiB"))
        assert checked(whole) == []
        (one,) = pod_of(whole)["spec"]["initContainers"]
        assert one.get("resources", {}) == resources


@pytest.mark.parametrize("face", ["reverse", "forward"])
def test_what_takes_plaintext_is_on_loopback_and_the_cluster_asks_elsewhere(face: str) -> None:
    """On the network of its host all of it is, for the kubelet asks there; else it asks at the pod's address."""
    for target in (
        config(encryption={"keys": {"bkt": KMS}, "face": face}, service_account="sa"),
        config(encryption={"keys": {"bkt": KMS}, "face": face}),
    ):
        whole, _ = made(target)
        (proxy,) = pod_of(whole)["spec"]["initContainers"]
        words = dict(zip(proxy["command"], proxy["command"][1:], strict=False))
        data = [words["--listen"], *([words["--forward"]] if face == "forward" else [])]
        assert {one.partition(":")[0] for one in data} == {"127.0.0.1"}
        probe = proxy["startupProbe"]["httpGet"]
        assert str(probe["port"]) not in {one.partition(":")[2] for one in data}
        on_host = bool(pod_of(whole)["spec"].get("hostNetwork"))
        assert words["--admin"] == f"{'127.0.0.1' if on_host else '0.0.0.0'}:9082"
        assert probe.get("host") == ("127.0.0.1" if on_host else None)
        assert words["--login"] == ("own" if on_host else "all"), "others of the host come there, too"
        ports = [one["containerPort"] for one in proxy["ports"]]
        assert ports == ([9081, 9082, 9080] if face == "forward" else [9081, 9082])
    assert on_host, "as on TPUs of GKE"


def test_a_program_without_a_supervisor_gets_the_way_itself(key: Path) -> None:
    target = sealed(key)
    asked = submission_of(Wanted("run-1", IMAGE, ["python", "train.py"], env={"A": "b"}), target)
    whole = jobset(target, asked)
    told = seen(main_of(whole))
    assert told["STORAGE_EMULATOR_HOST"] == told["TENSORSTORE_GCS_HTTP_URL"] == "http://127.0.0.1:9081"
    past = Wanted("run-1", IMAGE, env={"TENSORSTORE_GCS_BACKEND": "gcs_grpc"})
    with pytest.raises(BadInput, match="the program would go around encryption: TENSORSTORE_GCS_BACKEND"):
        submission_of(past, target)


def test_any_image_may_stand_there_with_its_certificates() -> None:
    whole, kept = made(config(sidecar=OTHER))
    assert checked(whole) == [] and kept is None
    pod = pod_of(whole)["spec"]
    (other,) = pod["initContainers"]
    assert other["image"] == "r/go-gcsproxy:v0.3" and "command" not in other
    assert seen(other)["PROXY_CERT_PATH"] == "/proxy/certs/ca.pem"
    assert other["startupProbe"]["exec"] == {"command": ["test", "-s", "/proxy/certs/ca.pem"]}
    assert other["ports"] == [{"containerPort": 9080}]
    worker = main_of(whole)
    (mount,) = [one for one in worker["volumeMounts"] if one["name"] == "certificates"]
    assert mount == {"name": "certificates", "mountPath": "/proxy/certs", "readOnly": True}
    env = seen(worker)
    assert (env["https_proxy"], env["SSL_CERT_FILE"]) == ("http://127.0.0.1:9080", "/proxy/certs/ca.pem")
    assert env[CERTIFICATES_VARIABLE] == "/proxy/certs"


def test_go_gcsproxy_and_axlearn_are_in_manifests_as_their_acceptance_is_shipped() -> None:
    """Images, port, the folder that both see, and the variables of each variant."""
    acceptance = load_acceptance(ROOT / "configs/acceptance/go-gcsproxy.yaml")
    program = acceptance.training
    assert isinstance(program, Program)
    beside_them: dict[str, dict[str, str]] = {}
    for variant in acceptance.variants:
        target = config(**variant.beside)
        whole = jobset(
            target, submission_of(Wanted("run-1", program.image, program.command, program.env), target)
        )
        assert checked(whole) == []
        pod, worker = pod_of(whole)["spec"], main_of(whole)
        assert (worker["image"], worker["command"]) == (program.image, ["bash", "/run-fuji.sh"])
        env = seen(worker)
        assert (env["CONFIG"], env["SAVE_EVERY_N_STEPS"]) == ("fuji-7B-s1-b32", "100")
        if variant.is_base:
            assert "initContainers" not in pod and "https_proxy" not in env
            continue
        (proxy,) = pod["initContainers"]
        assert proxy["image"].endswith("/go-gcsproxy:v0.3") and proxy["restartPolicy"] == "Always"
        assert proxy["ports"] == [{"containerPort": 9080}]
        certificate = "/proxy/certs/mitmproxy-ca-cert.pem"
        assert proxy["startupProbe"]["exec"]["command"][-1] == certificate
        for container in (proxy, worker):
            assert "/proxy/certs" in {one["mountPath"] for one in container["volumeMounts"]}
        led = {name: env[name] for name in ("https_proxy", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")}
        assert led == {"https_proxy": "http://127.0.0.1:9080", **dict.fromkeys(list(led)[1:], certificate)}
        assert env["GCS_RETRY_CONFIG_MAX_RETRIES"] == "0"
        beside_them[variant.name] = seen(proxy)
    passing, encrypting = beside_them["passing"], beside_them["encrypting"]
    assert passing["GCS_PROXY_DISABLE_ENCRYPTION"] and "GCS_PROXY_DISABLE_ENCRYPTION" not in encrypting
    assert encrypting["GCP_KMS_BUCKET_KEY_MAPPING"].startswith("my-bucket:projects/")
    assert {one["SSL_INSECURE"] for one in beside_them.values()} == {"false"}


def test_a_plan_tells_what_manifests_have(key: Path) -> None:
    """Image, ports and folder that are told beforehand are those of the container."""
    for target in (
        config(sidecar=OTHER),
        sealed(key),
        config(encryption={"enabled": False, "face": "forward"}, cpu="4", memory="8GiB"),
    ):
        stands = standing(target)
        assert stands is not None
        container = pod_of(made(target)[0])["spec"]["initContainers"][0]
        assert stands.asks == container.get("resources", {}).get("requests", {})
        ports = [one["containerPort"] for one in container["ports"]]
        assert list(stands.ports.values()) == ports
        mounts = [
            one["mountPath"] for one in container.get("volumeMounts", ()) if one["name"] == "certificates"
        ]
        assert mounts == ([stands.certificates] if stands.certificates else [])
        assert stands.image == (container["image"] if target.sidecar else "that of the workers")
        text = "\n".join(lines(stands, "gs://b/o"))
        assert "is ready once" in text and "not in a bucket" not in text
    for part in (
        "listens on 9080 for workers; is ready once /proxy/certs/ca.pem is there, within 60 s",
        "go-gcsproxy, beside each worker, in a container: r/go-gcsproxy:v0.3",
        "shares the folder /proxy/certs with the workers",
    ):
        other = standing(config(sidecar=OTHER))
        assert other is not None and part in lines(other, "gs://b/o")
    for asks, said in (
        ({}, "no processors and no memory"),
        ({"cpu": "500m"}, "500m processors"),
        ({"cpu": 2, "memory": "1.5GiB"}, "2 processors and 1536 MiB of memory"),
    ):
        asking = standing(config(encryption={"enabled": False, **asks}))
        assert asking is not None and f"its container asks for {said}" in lines(asking, "gs://b/o")


def test_without_one_nothing_is_added() -> None:
    plain = jobset(config(), submission())
    assert "initContainers" not in pod_of(plain)["spec"]
    assert AT_VARIABLE not in seen(main_of(plain))


def test_supervisors_are_told_no_secret(key: Path) -> None:
    sidecar = told(beside(sealed(key), elsewhere=True))
    assert sidecar is not None and sidecar.guards and sidecar.workload_env
    assert not sidecar.files and not sidecar.command and not sidecar.env


STUB = Path(__file__).with_name("sidecar_stub.py")


def others(pods: Pods, does: str = "", **more: Any) -> dict[str, Any]:
    env = {**OTHER["env"], "STUB_FOLDER": str(pods.folder), "STUB_DOES": does}  # type: ignore[dict-item]
    return {**OTHER, "env": env, **more}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    entrypoints = {"r/go-gcsproxy:*": [sys.executable, str(STUB)]}
    with gke_runs.cluster(
        tmp_path_factory.mktemp("cluster"), entrypoints=entrypoints, backoff_s=0.05
    ) as started:
        yield started


@pytest.fixture
def pods(cluster: KubernetesStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pods]:
    with gke_runs.at_work(cluster, tmp_path, monkeypatch) as pods:
        yield pods


def test_a_run_in_pods_ends_though_its_proxies_would_not(pods: Pods, key: Path) -> None:
    encryption = {"keys": {"bkt": f"file:{key}"}}
    do = {"0.0": "env:STORAGE_EMULATOR_HOST", "1.0": "env:STORAGE_EMULATOR_HOST"}
    # Where the store is: of Google's the proxy would want to know who we are.
    run = pods.run(do=do, encryption=encryption, env={"STORAGE_EMULATOR_HOST": "http://127.0.0.1:1"})
    holding = hold(RUN)
    try:
        outcome = play(run, holding)
    finally:
        teardown(run, holding)
    assert exit_code_of(outcome) == ExitCode.DONE
    for worker in (0, 1):
        log = (pods.folder / f"{RUN}/logs/worker-{worker:04d}.log").read_text()
        assert "STORAGE_EMULATOR_HOST is http://127.0.0.1:" in log and "127.0.0.1:1\n" not in log
        assert (pods.folder / f"{RUN}/results/points-a1-w{worker:04d}.jsonl").exists()
    job = (pods.folder / RUN).rglob("job-*.json")
    assert not any(key.read_text() in file.read_text() for file in job)
    said = (pods.folder / RUN / sidecar_log(1, 1)).read_text()
    assert '"event": "serving"' in said and '"event": "ended"' in said, "to its last line"


def test_what_stands_beside_a_worker_may_die_and_is_told_of_with_its_last_words(pods: Pods) -> None:
    """It plays go-gcsproxy: up once its certificate is there, which workers see, and started again by the cluster."""
    do = {
        "0.0": "env:SSL_CERT_FILE",
        "0.1": f"until:{pods.folder}/go-on",
        "1.1": f"until:{pods.folder}/go-on",
    }
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if "benchmark 2 of 2" in line:
            (pods.folder / "die").touch()
        if sum(line.startswith("sidecar: ") for line in said) == 2:
            (pods.folder / "go-on").touch()

    run, holding = pods.run(do=do, say=say, sidecar=others(pods)), hold(RUN)
    try:
        outcome = play(run, holding)
    finally:
        teardown(run, holding)
    assert exit_code_of(outcome) == ExitCode.DONE, said
    worker = (pods.folder / f"{RUN}/logs/worker-0000.log").read_text()
    assert re.search(r"SSL_CERT_FILE is /\S+/ca.pem", worker)
    told = [line for line in said if line.startswith("sidecar: ")]
    for pod in (0, 1):
        (line,) = [line for line in told if f"slice-job-0-{pod}-" in line]
        assert re.fullmatch(
            r"sidecar: ended; pod \S+: container go-gcsproxy exited with 7, 1 end by now: the cluster starts it again; "
            r"what goes through it fails meanwhile: it said last: out of buffers",
            line,
        )
        log = (pods.folder / RUN / sidecar_log(1, pod)).read_text().splitlines()
        assert log == ["proxy begins, start 1", "out of buffers", "proxy begins, start 2", "proxy ends"]


@pytest.mark.parametrize(
    ("does", "within_s", "why"),
    [
        (
            "ends",
            60,
            r"it ended \d+ times before it was up, and exited with 3 at last: it said last: no key .*: \(redacted\)",
        ),
        (
            "hangs",
            1,
            r"it was not up within 1 s, by its startup probe, and exited with 0 then: it said last: proxy ends",
        ),
    ],
)
def test_what_is_never_up_ends_the_run_with_the_reason(
    pods: Pods, does: str, within_s: int, why: str
) -> None:
    ready = {"file": "{certificates}/ca.pem", "within_s": within_s}
    run, holding = pods.run(sidecar=others(pods, does, ready=ready)), hold(RUN)
    run.spec.__dict__.update(env={"MY_TOKEN": "s3cret-token"}, secret_env=["MY_TOKEN"])
    try:
        with pytest.raises(
            NeverUp, match=rf"can never begin: pod \S+: container go-gcsproxy: {why}: fix that"
        ):
            play(run, holding)
    finally:
        teardown(run, holding)
    assert any(line.startswith("starting: SidecarNotUp") for line in pods.said), pods.said
    assert any(line.startswith("sidecar: ") and "before it was up" in line for line in pods.said)
