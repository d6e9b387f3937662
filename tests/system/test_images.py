"""Real images: buildah builds from the real Dockerfile, Debian's docker-registry keeps them, layers need no engine."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli.main import main
from tasks.cloud.resolve import Lock
from tests.system.buildah import address, base, buildah, debian, engine  # noqa: F401

pytestmark = [pytest.mark.system, pytest.mark.timeout(3000)]  # five minutes, on a quiet machine

TRAIN = """\
import os, sys, numpy, orbax.checkpoint as ocp
tree = {"a": numpy.arange(8.0)}
checkpointer = ocp.PyTreeCheckpointer()
checkpointer.save("/smoke/saved", tree)
assert numpy.array_equal(checkpointer.restore("/smoke/saved")["a"], tree["a"])
print(os.getcwd(), sys.prefix, sorted(os.listdir()))
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
    monkeypatch.setattr("tasks.stages.image_build.Lock", lambda: Lock(tmp_path / "requirements.in"))


def test_an_image_is_built_tried_out_pushed_layered_and_run(
    base: str, small: None, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--repository", f"{address}/slicebench", "--base-image", base, "--device", "cpu", "--smoke")
    built = image_build(capsys, *words, "--builder", "buildah")
    assert str(built["image"]).startswith(f"{address}/slicebench@sha256:") and not built["reused"]
    # The registry, not the engine, is who knows what the tag is.
    given = image_build(capsys, "--docker-image", f"{address}/slicebench:{built['tag']}")
    assert given["image"] == built["image"]
    again = image_build(capsys, *words[:-1])
    assert again["reused"] and again["image"] == built["image"]

    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(TRAIN)
    (code / "secret.key").write_text("x")
    (code / ".dockerignore").write_text("*.key\n.dockerignore\n")
    made = image_build(
        capsys, "--script-dir", str(code), "--base-image", str(built["image"]),
        "--repository", f"{address}/mine",
    )  # fmt: skip
    buildah("rmi", "--all", "--force")  # what is run is what the registry has
    output = tmp_path / "output"
    output.mkdir()
    buildah("from", "--tls-verify=false", "--name", "mine", str(made["image"]))
    told = buildah("run", "--volume", f"{output}:/smoke", "mine", "--", "python", "train.py")
    assert told.split() == ["/app", "/opt/slicebench/venv", "['train.py']"]
    assert (output / "saved").is_dir()
    assert "portpicker" in buildah("run", "mine", "--", "pip", "list")
    assert buildah("run", "mine", "--", "python", "-c", "import runtime; print(runtime.__path__[0])") == (
        "/opt/slicebench/runtime\n"
    )
