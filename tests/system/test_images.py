"""Real images: a run in pods has buildah build its own from the real Dockerfile, Debian's docker-registry keeps it, and
layers need no engine.
"""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.cli.main import main
from tasks.cloud.image_names import image_name
from tasks.cloud.registry import Registry
from tasks.cloud.resolve import Lock
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.system.buildah import address, base, buildah, debian, engine  # noqa: F401

pytestmark = [pytest.mark.system, pytest.mark.timeout(3000)]  # five minutes, on a quiet machine

ROOT = Path(__file__).parents[2]
TRAIN = """\
import os, sys, numpy, orbax.checkpoint as ocp
tree = {"a": numpy.arange(8.0)}
checkpointer = ocp.PyTreeCheckpointer()
checkpointer.save("/smoke/saved", tree)
assert numpy.array_equal(checkpointer.restore("/smoke/saved")["a"], tree["a"])
print(os.getcwd(), sys.prefix, sorted(os.listdir()))
"""
WHERE = """\
import importlib.util, os
compiled = os.path.exists(importlib.util.find_spec("jax").cached)
import portpicker, orbax.checkpoint
print(compiled, portpicker.__file__)
"""


def image_build(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """Runs `slicebench image build`; returns what it prints with --json."""
    code = main(["image", "build", *words, "--json"])
    told = capsys.readouterr()
    assert code == 0, told.err
    made: dict[str, object] = json.loads(told.out.splitlines()[-1])
    return made


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets an image hold the locked JAX and Orbax without what results and buckets need: half of its size."""
    (tmp_path / "requirements.in").write_text("jax\nnumpy\norbax-checkpoint\n")
    for stage in ("build", "image_build"):
        monkeypatch.setattr(f"tasks.stages.{stage}.Lock", lambda: Lock(tmp_path / "requirements.in"))


def run_in_pods(base: str, address: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Runs a suite in pods of a cluster that has no other images than this registry's, by digest.

    Returns what the run keeps of its image, and the tag that the plan said before.
    """
    output = folder / "shared"
    output.mkdir()
    shared = {"directory": str(output), "host_path": str(output)}
    build = {"repository": f"{address}/slicebench", "base": base, "builder": "buildah"}
    pool = {"pool": "cpu", "count": 1}
    settings = {"images": [f"{address}/slicebench@sha256:*"], "nodes": [pool]}
    with KubernetesStandIn.started(folder, image_env={"PYTHONPATH": str(ROOT)}, **settings) as cluster:
        target = {
            "kind": "gke", "context": "standin", "kubeconfig": str(cluster.kubeconfig), "type": "cpu", "build": build,
            "queue": None, "priority": None, "cpu": "1", "shared": shared,
        }  # fmt: skip
        (folder / "pods.yaml").write_text(yaml.safe_dump(target))
        words = ["quickstart", "--target", str(folder / "pods.yaml"), "--output", str(output), "--json"]
        assert main(["plan", *words]) == 0
        planned = json.loads(capsys.readouterr().out)["build"]
        assert planned["rebuild"] and planned["makes"] == "image"
        code = main(["run", *words, "--direct", "--run-id", "built", "--set", "num_repeats=1"])
        told = capsys.readouterr().err
        assert code == 0, told
        assert "is new on this cluster: it is tried in a pod first" in told
        cluster.assert_nothing_left(but=("nodes", "namespaces", "serviceaccounts", "priorityclasses"))
        assert main(["plan", *words]) == 0
        again = json.loads(capsys.readouterr().out)["build"]
        assert not again["rebuild"] and again["key"] == planned["key"]
    manifest = json.loads((output / "built" / "results" / "manifest-a1-w0000.json").read_text())
    kept = json.loads((output / "built" / "stages" / "build.json").read_text())["outputs"]["image"]
    assert kept["reference"] in json.dumps(manifest)
    return {"tag": planned["key"], **kept}


def assert_whole(image: str) -> None:
    """Asserts that the registry has all of an image, in its repository: of an engine's storage nothing is needed."""
    with Registry() as registry:
        name = image_name(image)
        layers = registry.image(name).content["layers"]
        assert len(layers) > 2 and all(registry.has_blob(name, layer["digest"]) for layer in layers)


def test_an_image_is_built_tried_out_pushed_layered_and_run(
    base: str, small: None, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = run_in_pods(base, address, tmp_path, capsys)
    image = str(built["reference"])
    assert image.startswith(f"{address}/slicebench@sha256:") and not built["reused"]
    # The registry, not the engine, is who knows what the tag is.
    given = image_build(capsys, "--docker-image", f"{address}/slicebench:{built['tag']}")
    assert given["image"] == image
    words = ("--repository", f"{address}/slicebench", "--base-image", base, "--device", "cpu")
    again = image_build(capsys, *words, "--builder", "buildah")
    assert again["reused"] and again["image"] == image, "the command makes what a run makes"

    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(TRAIN)
    (code / "portpicker.py").write_text("")
    (code / "secret.key").write_text("x")
    (code / ".dockerignore").write_text("*.key\n.dockerignore\n")
    made = image_build(
        capsys, "--script-dir", str(code), "--base-image", image,
        "--repository", f"{address}/mine",
    )  # fmt: skip
    assert_whole(str(made["image"]))
    output = tmp_path / "output"
    output.mkdir()
    buildah("from", "--tls-verify=false", "--name", "mine", str(made["image"]))
    told = buildah("run", "--volume", f"{output}:/smoke", "mine", "--", "python", "train.py")
    assert told.split() == ["/app", "/opt/slicebench/venv", "['portpicker.py',", "'train.py']"]
    assert (output / "saved").is_dir()
    assert "portpicker" in buildah("run", "mine", "--", "pip", "list")
    told = buildah("run", "--workingdir", "/", "mine", "--", "python", "-c", WHERE)
    assert told == "True /app/portpicker.py\n", "packages are compiled; a layer goes before what the base has"
    assert buildah("run", "mine", "--", "python", "-c", "import runtime; print(runtime.__path__[0])") == (
        "/opt/slicebench/runtime\n"
    )


@pytest.mark.parametrize(
    ("kind", "module", "says"),
    [("proxy", "gcs_proxy", "serve --help"), ("training", "training", "--resume-from")],
)
def test_images_of_the_proxy_and_of_training_begin_their_program(
    base: str, address: str, capsys: pytest.CaptureFixture[str], kind: str, module: str, says: str
) -> None:
    words = (
        "--repository",
        f"{address}/{kind}",
        "--base-image",
        base,
        "--builder",
        "buildah",
        "--kind",
        kind,
    )
    made = image_build(capsys, *words, *(("--device", "cpu") if kind == "training" else ()))
    buildah("from", "--tls-verify=false", "--name", kind, str(made["image"]))
    assert json.loads(buildah("inspect", "--type", "container", kind))["OCIv1"]["config"]["Cmd"] == [
        "python", "-m", f"runtime.{module}"
    ]  # fmt: skip
    assert says in buildah("run", kind, "--", "python", "-m", f"runtime.{module}", "--help")
