"""Makes venvs on a host, each named by its content: once, whole, and believed only then; sent as steward.py is.

A venv has up to two parts: packages with their hashes, through the host's own pip settings, which take minutes; and
laid over them the code under test, which changes often and takes moments. Each part is a folder with a mark that is
written last. Whoever makes one holds a lock for as long as anything that fills it lives.
"""

# Each call is a process of its own, and pathlib is slow to import.
# ruff: noqa: PTH103, PTH105, PTH108, PTH111, PTH112, PTH116, PTH118, PTH119, PTH120, PTH123, PTH207, PTH208, PTH211

from __future__ import annotations

import base64
import contextlib
import csv
import ctypes
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

LABEL = ".slicebench-lease.json"
MARK = "complete.json"

Answer = dict[str, Any]
Fill = Callable[[str], None]

_KEPT_S = 30 * 86400.0
_TOLD_LINES = 15
# The pip that Python brings along is run from its wheel: installing it first takes longer than most of the rest.
_PIP = """
import ensurepip, glob, os, runpy, sys, sysconfig
places = [os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"), "/usr/share/python-wheels"]
places.append(sysconfig.get_config_var("WHEEL_PKG_DIR") or places[0])
sys.path.insert(0, [wheel for place in places for wheel in sorted(glob.glob(place + "/pip-*.whl"))][-1])
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def make(venvs: str, base: str, layer: str, python: str, kit: str, labels: str, limit_s: float) -> Answer:
    """Makes what is missing of a venv; returns its Python, its packages, and what pip said if it was asked.

    `base` and `layer` are the names of its parts; without code under test `layer` is empty. `kit` is a folder with
    requirements.txt and source.whl. What is started carries the labels that the folder `labels` has.
    """
    until = time.monotonic() + limit_s
    venvs = os.path.expanduser(venvs)
    os.makedirs(venvs, mode=0o700, exist_ok=True)
    _forget_old(venvs)
    began = time.monotonic()
    env = _environment(labels)
    made = _Part(venvs, base, until, env)
    reused = made.complete(lambda folder: _install(made, folder, python, kit))
    part = made
    if layer:
        part = _Part(venvs, layer, until, env)
        reused = part.complete(lambda folder: _lay_over(folder, made.folder, kit)) and reused
    packages = {**made.packages, **part.packages}
    return {
        "python": os.path.join(part.folder, "bin", "python"),
        "packages": packages,
        "reused": reused,
        "seconds": time.monotonic() - began,
        "log": made.log,
    }


class _Part:
    """A folder of a venv. `packages`: what it holds; `log`: what programs said that filled it now."""

    def __init__(self, venvs: str, name: str, until: float, env: dict[str, str]) -> None:
        self.folder = os.path.join(venvs, name)
        self.packages: dict[str, str] = {}
        self.log = ""
        self._until = until
        self._env = env
        self._lock = -1

    def complete(self, fill: Fill) -> bool:
        """Fills the folder, unless it is there and sound; says whether it was."""
        self._lock = os.open(f"{self.folder}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._wait_for_lock()
            mark = os.path.join(self.folder, MARK)
            if self._sound(mark):
                os.utime(mark)
                return True
            _delete(self.folder)
            try:
                fill(self.folder)
                self.packages = _packages(self.folder)
                with open(f"{mark}.new", "w") as file:
                    json.dump({"packages": self.packages}, file)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(f"{mark}.new", mark)
            except BaseException:
                _delete(self.folder)
                raise
            return False
        finally:
            os.close(self._lock)

    def run(self, what: str, command: list[str]) -> None:
        """Runs a program to a good end, within the time that is left."""
        kernel = ctypes.CDLL(None)

        def end_with_parent() -> None:
            kernel.prctl(1, signal.SIGKILL)

        with open(f"{self.folder}.log", "w+", errors="replace") as log:
            child = subprocess.Popen(
                command,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(
                    self._lock,
                ),  # held by the child as well: should we be killed, nobody comes in between
                preexec_fn=end_with_parent,
            )
            try:
                code: int | None = child.wait(max(1.0, self._until - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            log.seek(0)
            said = log.read()
        self.log += said
        if code != 0:
            raise _failure(what, code, said, self.folder)

    def _wait_for_lock(self) -> None:
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > self._until:
                    raise OSError(f"{self.folder} is still being made by another run") from None
                time.sleep(0.1)
            else:
                return

    def _sound(self, mark: str) -> bool:
        """Says whether all of it was made once, and nothing was changed since that matters to a measurement."""
        try:
            with open(mark) as file:
                self.packages = json.load(file)["packages"]
        except (OSError, ValueError, KeyError):
            return False
        runs = os.access(os.path.join(self.folder, "bin", "python"), os.X_OK)
        return runs and _packages(self.folder) == self.packages and not _damaged(self.folder)


def _install(part: _Part, folder: str, python: str, kit: str) -> None:
    part.run("venv", [python, "-m", "venv", "--without-pip", folder])
    pip = [os.path.join(folder, "bin", "python"), "-I", "-c", _PIP, "install", "--no-input", "--no-deps"]
    pip += [
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
        "--require-hashes",
        "--only-binary",
        ":all:",
    ]
    part.run("pip install", [*pip, "--requirement", os.path.join(kit, "requirements.txt")])


def _lay_over(folder: str, base: str, kit: str) -> None:
    """Makes a venv that holds one wheel and sees the packages of `base`. Nothing is run for it: it takes moments."""
    [site] = glob.glob(os.path.join(base, "lib", "python3*", "site-packages"))
    own = os.path.join(folder, os.path.relpath(site, base))
    os.makedirs(own)
    os.makedirs(os.path.join(folder, "bin"))
    os.symlink(os.path.realpath(os.path.join(base, "bin", "python")), os.path.join(folder, "bin", "python"))
    shutil.copyfile(os.path.join(base, "pyvenv.cfg"), os.path.join(folder, "pyvenv.cfg"))
    with zipfile.ZipFile(os.path.join(kit, "source.whl")) as wheel:
        wheel.extractall(own)
    with open(os.path.join(own, "slicebench_base.pth"), "w") as file:
        file.write(f"import site; site.addsitedir({site!r})\n")


def _packages(folder: str) -> dict[str, str]:
    """Returns name → version of what is installed in a venv itself."""
    found = {}
    for path in glob.glob(os.path.join(folder, "lib", "python3*", "site-packages", "*.dist-info")):
        name, _, version = os.path.basename(path)[: -len(".dist-info")].partition("-")
        found[re.sub(r"[-_.]+", "-", name).lower()] = version
    return found


def _damaged(folder: str) -> bool:
    """Says whether Orbax's files are not what its wheel held, where it is installed here."""
    for record in glob.glob(
        os.path.join(folder, "lib", "python3*", "site-packages", "orbax_checkpoint-*", "RECORD")
    ):
        site = os.path.dirname(os.path.dirname(record))
        with open(record, newline="") as file:
            rows = [row for row in csv.reader(file) if len(row) == 3 and row[1].startswith("sha256=")]
        for name, told, _ in rows:
            try:
                with open(os.path.join(site, name), "rb") as file_:
                    digest = base64.urlsafe_b64encode(hashlib.sha256(file_.read()).digest())
            except OSError:
                return True
            if told != f"sha256={digest.rstrip(b'=').decode()}":
                return True
    return False


def _environment(labels: str) -> dict[str, str]:
    """Returns what pip gets to see: the host's own settings, and the labels by which it is found and ended."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with contextlib.suppress(OSError, ValueError), open(os.path.join(labels, LABEL)) as file:
        env.update(json.load(file))
    return env


def _failure(what: str, code: int | None, said: str, folder: str) -> OSError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = "; ".join(lines[-_TOLD_LINES:])[-1500:] or "it said nothing"
    space = os.statvfs(os.path.dirname(folder))
    # On a full disk even what is said may be lost.
    full = space.f_bavail * space.f_frsize < 1 << 20
    if full or "No space left on device" in said or "Disk quota exceeded" in said:
        return OSError(errno.ENOSPC, f"{what} in {os.path.dirname(folder)}: no space left")
    how = "did not end in time" if code is None else f"failed with exit code {code}"
    return OSError(f"{what} {how}: {told}")


def _forget_old(venvs: str) -> None:
    """Deletes what no run has used for long, and what killed makers left; nothing that is being made."""
    for name in os.listdir(venvs):
        folder = os.path.join(venvs, name)
        if os.path.isdir(folder) and time.time() - _used_at(folder) > _KEPT_S:
            with _if_free(f"{folder}.lock") as free:
                if free:
                    _delete(folder)


def _used_at(folder: str) -> float:
    for path in (os.path.join(folder, MARK), folder):
        with contextlib.suppress(OSError):
            return os.stat(path).st_mtime
    return time.time()


@contextlib.contextmanager
def _if_free(path: str) -> Iterator[bool]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


def _delete(folder: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, MARK))  # first: half a venv must not look whole
    shutil.rmtree(folder, ignore_errors=True)


OPERATIONS = {"make": make}
