"""buildah in chroots, and what images in tests are built on: a small Debian with Python. Root is enough for both.

Nothing of the machine's own storage is touched. The Debian is fetched once for all processes of a test run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cloud.docker_registry import missing, serve_docker_registry
from tests.system.pushed import push_layer

__all__ = ["address", "base", "buildah", "call", "debian", "engine"]

TOOLS = ("buildah", "debootstrap")
PACKAGES = "python3,python3-venv,ca-certificates"
WASTE = ("usr/share/doc/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# As slim images have it: no manuals, now and in what is installed later; nor is each file brought to the disk.
SLIM = "\n".join(["force-unsafe-io", *(f"path-exclude=/{waste}" for waste in WASTE), ""])
ENV = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"PIP_CERT={CERTIFICATES}")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lets buildah work in chroots, with a storage of its own that is deleted afterwards."""
    if lacking := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"no {lacking[0]} here: apt-get install {' '.join(TOOLS)}")
    if os.geteuid() != 0:
        pytest.skip("buildah makes chroots: run this test as root")
    folder = tmp_path_factory.mktemp("storage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_STORAGE_CONF", str(folder / "storage.conf"))
        patch.setenv("BUILDAH_ISOLATION", "chroot")
        patch.setenv("BUILDAH_LAYERS", "false")  # with vfs each would be a copy of all that is below it
        if not _stores_by("overlay", folder):
            _stores_by("vfs", folder)
        yield
        buildah("rm", "--all")
        buildah("rmi", "--all", "--force")
    shutil.rmtree(folder, ignore_errors=True)


def _stores_by(driver: str, folder: Path) -> bool:
    """Sets up the storage; says whether it works. Of overlay nothing is copied, but not all file systems bear it."""
    storage = {"driver": driver, "graphroot": folder / driver, "runroot": folder / "run"}
    lines = ["[storage]", *(f'{name} = "{value}"' for name, value in storage.items()), ""]
    (folder / "storage.conf").write_text("\n".join(lines))
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY storage.conf /\n")
    tries = (
        ("build", "--tag", "tried", str(folder)),
        ("from", "--name", "tried", "--pull-never", "tried"),
        ("mount", "tried"),
        ("rm", "--all"),
        ("rmi", "--all", "--force"),
    )
    return all(subprocess.run(["buildah", *words], capture_output=True).returncode == 0 for words in tries)


@pytest.fixture(scope="module")
def address(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real registry, empty."""
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("registry")
    with serve_docker_registry(folder) as address:
        yield address
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def base(address: str, debian: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The small Debian, in the registry."""
    asked = call("chroot", str(debian), "python3", "-c", "import platform; print(platform.python_version())")
    work = tmp_path_factory.mktemp("base")
    call("tar", "--create", "--numeric-owner", "--file", str(work / "tar"), "--directory", str(debian), ".")
    name = f"{address}/base:1"
    push_layer(name, work / "tar", {"Env": [*ENV, f"PYTHON_VERSION={asked.strip()}"]}, work)
    shutil.rmtree(work)
    return name


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Debian's root: fetched by whoever comes first, deleted by whoever is last; or what $SLICEBENCH_TEST_ROOTFS
    names, from an earlier time.
    """
    if given := os.environ.get("SLICEBENCH_TEST_ROOTFS"):
        yield Path(given)
        return
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    rootfs = shared / "debian" / "rootfs"
    with (shared / "debian.lock").open("w") as lock:
        while not rootfs.is_dir():  # it may go between two locks
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not rootfs.is_dir():
                half = rootfs.with_name("half")
                shutil.rmtree(half, ignore_errors=True)  # of whoever failed before
                _fetch(half)
                half.rename(rootfs)
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield rootfs
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if rootfs.is_dir():  # one that ended before may have been the last as well
                shutil.rmtree(rootfs)


def _fetch(rootfs: Path) -> None:
    rootfs.mkdir(parents=True)
    words = ("--foreign", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(rootfs))
    call("debootstrap", *words)
    slim = rootfs / "etc/dpkg/dpkg.cfg.d/slim"
    slim.parent.mkdir(parents=True, exist_ok=True)
    slim.write_text(SLIM)  # before the packages are installed: that takes half as long then
    call("chroot", str(rootfs), "/debootstrap/debootstrap", "--second-stage")
    if CERTIFICATES.is_file():  # a machine behind a proxy trusts more than Debian does
        shutil.copy(CERTIFICATES, rootfs / CERTIFICATES.relative_to("/"))
    for waste in (*WASTE, "var/lib/apt/lists/*", "var/cache/apt/archives/*.deb"):
        for path in rootfs.glob(waste):
            # A link to a folder that is still there (libgcc-s1's manual is gcc's) is no folder.
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def call(*argv: str) -> str:
    """Runs a command that has to succeed; returns what it prints."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{' '.join(argv[:3])}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
    return done.stdout


def buildah(*argv: str) -> str:
    """Runs buildah."""
    return call("buildah", *argv)
