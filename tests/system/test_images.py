"""Real images: buildah builds from the real Dockerfile, Debian's docker-registry keeps them, layers need no engine.

buildah works in chroots here, for which root is enough; nothing of the machine's own storage is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.cli.main import main
from tasks.cloud.resolve import Lock
from tests.cloud.docker_registry import missing, serve_docker_registry

pytestmark = [pytest.mark.system, pytest.mark.timeout(3000)]  # five minutes, on a quiet machine

TOOLS = ("buildah", "debootstrap")
PACKAGES = "python3,python3-venv,ca-certificates"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
BASE = """\
FROM scratch
COPY rootfs/ /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt
ENV PYTHON_VERSION={python}
"""
TRAIN = """\
import os, sys, numpy, orbax.checkpoint as ocp
tree = {"a": numpy.arange(8.0)}
checkpointer = ocp.PyTreeCheckpointer()
checkpointer.save("/smoke/saved", tree)
assert numpy.array_equal(checkpointer.restore("/smoke/saved")["a"], tree["a"])
print(os.getcwd(), sys.prefix, sorted(os.listdir()))
"""


@pytest.fixture(scope="module", autouse=True)
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lets buildah work in chroots, with a storage of its own that is deleted afterwards."""
    if lacking := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"no {lacking[0]} here: apt-get install {' '.join(TOOLS)}")
    if os.geteuid() != 0:
        pytest.skip("buildah makes chroots: run this test as root")
    folder = tmp_path_factory.mktemp("storage")
    storage = {"driver": "vfs", "graphroot": folder / "graph", "runroot": folder / "run"}
    (folder / "storage.conf").write_text(
        "\n".join(["[storage]", *(f'{name} = "{value}"' for name, value in storage.items()), ""])
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_STORAGE_CONF", str(folder / "storage.conf"))
        patch.setenv("BUILDAH_ISOLATION", "chroot")
        patch.setenv("BUILDAH_LAYERS", "false")  # each would be a copy of all that is below it
        yield
        buildah("rm", "--all")
        buildah("rmi", "--all", "--force")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def address(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("registry")
    with serve_docker_registry(folder) as address:
        yield address
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def base(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A small Debian with Python, in the registry; or what $SLICEBENCH_TEST_BASE names: one from an earlier time."""
    if given := os.environ.get("SLICEBENCH_TEST_BASE"):
        yield given
        return
    context = tmp_path_factory.mktemp("base")
    rootfs = context / "rootfs"
    call("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(rootfs))
    if CERTIFICATES.is_file():  # a machine behind a proxy trusts more than Debian does
        shutil.copy(CERTIFICATES, rootfs / CERTIFICATES.relative_to("/"))
    for waste in ("var/lib/apt/lists/*", "var/cache/apt/archives/*.deb"):
        for path in rootfs.glob(waste):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    asked = call("chroot", str(rootfs), "python3", "-c", "import platform; print(platform.python_version())")
    (context / "Dockerfile").write_text(BASE.format(python=asked.strip()))
    name = f"{address}/base:1"
    buildah("build", "--tag", name, str(context))
    buildah("push", "--tls-verify=false", name, f"docker://{name}")
    yield name
    shutil.rmtree(context)


def call(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{' '.join(argv[:3])}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
    return done.stdout


def buildah(*argv: str) -> str:
    return call("buildah", *argv)


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
