"""A new commit on the clones of many workers: by `tpu update`'s own stage over SSH, and by git alone, here."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from tasks.cloud.ssh_endpoint import Endpoint
from tasks.config.spec import SourceSpec
from tasks.stages.tpu_update import update
from tasks.stages.tpu_workers import Place
from tests.bench.ssh_peers import at_once
from tests.cloud.sshd import Sshd

_FILES, _FILE_BYTES = 400, 4000
"""About as much as Orbax's package."""

# Stands in for uv, which an update asks only when it is the first, or when what a package needs has changed:
# neither is measured.
_INSTALLER = """\
#!/bin/sh
for word; do tree=$word; done
echo "$tree" > "$HOME/venv/lib/python3/site-packages/orbax.pth"
"""

# What is left of an update without SSH, installer and Python.
_GIT = """
set -eu
url=$1 ref=$2 sha=$3
git rev-parse --quiet --verify HEAD > /dev/null
git diff --quiet HEAD
git cat-file -e "$sha^{commit}" 2> /dev/null || git fetch --quiet --depth 1 --no-tags -- "$url" "$sha"
git -c advice.detachedHead=false checkout --quiet --force --detach "$sha"
git clean --quiet -fd
git hash-object pyproject.toml > /dev/null
git rev-parse HEAD > /dev/null
"""


class Origin:
    """A repository shaped like Orbax's, which belongs to the user of the hosts; `package`: with this code in it."""

    def __init__(self, folder: Path, user: str, package: Path | None = None) -> None:
        self.folder, self._user = folder, user
        ours = folder / "orbax" / "checkpoint"
        if package is not None:
            shutil.copytree(package, ours, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            ours.mkdir(parents=True)
            (ours / "__init__.py").touch()
            for number in range(_FILES):
                (ours / f"part_{number}.py").write_text(f"# {number}\n" + "x = 1\n" * (_FILE_BYTES // 6))
        (folder / "pyproject.toml").write_text('[project]\nname = "orbax-checkpoint"\n')
        for one in (folder, *folder.rglob("*")):
            shutil.chown(one, user)
        self.trusting = folder.with_name("gitconfig")
        self.trusting.write_text("[safe]\n    directory = *\n")
        self._git("init", "--quiet", "--initial-branch", "main")
        self.commit(0)

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def commit(self, number: int) -> str:
        """Commits a change of one file; returns the hash."""
        (self.folder / "orbax" / "checkpoint" / "edited.py").write_text(f"NUMBER = {number}\n")
        self._git("add", ".")
        self._git("-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "--quiet", "-m", "new")
        return self._git("rev-parse", "HEAD")

    def _git(self, *words: str) -> str:
        done = run_as(self._user, ["git", *words], self.folder)
        return done.strip()


def furnish(host: Sshd, python: Path = Path("/usr/bin/python3"), packages: Path | None = None) -> None:
    """Gives a host what an update needs: a venv, which sees `packages`, too, and what installs into it."""
    home = host.home
    site = home / "venv" / "lib" / "python3" / "site-packages"
    for folder in (site, home / "venv" / "bin", home / ".local" / "bin"):
        folder.mkdir(parents=True)
    python = python.resolve()
    (site.parents[1] / python.name).symlink_to("python3")
    (home / "venv" / "bin" / "python").symlink_to(python)
    (home / "venv" / "pyvenv.cfg").write_text(f"home = {python.parent}\n")
    if packages is not None:  # after what the installer writes
        (site / "packages.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")
    installer = home / ".local" / "bin" / "uv"
    installer.write_text(_INSTALLER)
    installer.chmod(0o755)
    for one in (home, *home.rglob("*")):
        os.lchown(one, *_ids(host.user))


def by_us(hosts: Sequence[Sshd], origin: Origin) -> float:
    """Returns the seconds that updating all of them takes, from the first dial on; each ends where main is."""
    places = [
        Place(index, 0, "node", Endpoint(one.address, one.user, one.port, (str(one.key),), one.pin))
        for index, one in enumerate(hosts)
    ]
    # It is asked for its head from here, as another user than whose it is.
    with mock.patch.dict(os.environ, {"GIT_CONFIG_GLOBAL": str(origin.trusting)}):
        begin = time.monotonic()
        done = update(
            places, SourceSpec(origin.url, branch="main"), python="~/venv/bin/python", folder="~/ours"
        )
        took = time.monotonic() - begin
    assert done.workers == len(hosts)
    return took


def clone(hosts: Sequence[Sshd], origin: Origin) -> None:
    """Gives each host a clone for git alone, as deep as an update makes one."""

    def make(host: Sshd) -> None:
        command = ["git", "clone", "--quiet", "--depth", "1", origin.url, str(host.home / "theirs")]
        run_as(host.user, command, host.home)

    at_once(make, hosts)


def by_git(hosts: Sequence[Sshd], origin: Origin, sha: str) -> float:
    """Returns the seconds that the same git commands take here, one clone for each host, so many at once."""

    def fetch(host: Sshd) -> None:
        run_as(host.user, ["sh", "-c", _GIT, "git", origin.url, "refs/heads/main", sha], host.home / "theirs")

    return at_once(fetch, hosts)


def run_as(user: str, command: Sequence[str], folder: Path) -> str:
    """Runs a command as a user; returns what it says."""
    identity = (
        {} if os.geteuid() != 0 else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    )
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "HOME": str(folder)}, check=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **identity,
    )  # fmt: skip
    return done.stdout


def _ids(user: str) -> tuple[int, int]:
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid
