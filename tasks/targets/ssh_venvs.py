"""Venvs on hosts: which of their Pythons they are made with, and that they are there, the same everywhere."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from runtime.contract.names import LOGS_FOLDER
from tasks.cloud.kits import SHOWN, Kit, read_kit
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.ssh_link import Link
from tasks.cloud.ssh_steward import Conversation, ask
from tasks.cloud.storage import Folder
from tasks.config.home import kits_folder
from tasks.targets.types import Image, Interpreter

VENVS = "venvs"
"""Below a host's folder: venvs by their keys, which runs share."""

KIT = "venv"
"""In a bundle: what the venv is made of."""

OLDEST, NEWEST = (3, 11), (3, 14)
"""Between them lie the Pythons for which the locked packages are to be had."""

_MAKE_S = 1800.0
_FIND_S = 120.0


@dataclass(frozen=True)
class Choice:
    """The Python that venvs are made with, and where each host has it."""

    interpreter: Interpreter
    paths: Mapping[Host, str]


@dataclass(frozen=True)
class Made:
    """A venv on one host: its Python, packages (name → version), whether it was there, seconds, what pip said."""

    python: str
    packages: Mapping[str, str]
    reused: bool
    seconds: float
    log: str


def choose_python(pool: Pool, hosts: Sequence[Host], version: str | None = None) -> Choice:
    """Returns the newest Python that all hosts have and the packages support, one of `version` (X.Y) if it is given.

    Raises BadInput saying what each host has, and SshError for one that does not answer.
    """
    return choose(find_pythons(pool, hosts), version)


def find_pythons(pool: Pool, hosts: Sequence[Host]) -> Mapping[Host, Sequence[Mapping[str, Any]]]:
    """Returns the Pythons that each host has. Raises SshError for one that does not answer."""

    def task(host: Host) -> Callable[[Link], Any]:
        return lambda link: ask(link, host, "find", program="pythons", timeout_s=_FIND_S)["pythons"]

    told = pool.all({host.endpoint: task(host) for host in hosts})
    found: dict[Host, list[dict[str, Any]]] = {}
    for host in hosts:
        answer = told[host.endpoint]
        if isinstance(answer, SshError):
            raise answer
        found[host] = answer
    return found


def choose(found: Mapping[Host, Sequence[Mapping[str, Any]]], version: str | None = None) -> Choice:
    """Chooses among what hosts have. Pure. Raises BadInput naming each host that has none, and what it has."""
    usable = {
        host: {_identity(one): one for one in pythons if usable_python(one, version)}
        for host, pythons in found.items()
    }
    if problems := [
        _none_usable(host, found[host], version) for host, pythons in usable.items() if not pythons
    ]:
        raise BadInput(problems)
    common = set.intersection(*(set(pythons) for pythons in usable.values()))
    if not common:
        told = "; ".join(f"{host}: {_told(list(pythons.values()))}" for host, pythons in usable.items())
        raise BadInput(
            f"hosts have no Python in common: {told}",
            fix="install the same one everywhere, or name one with python:",
        )
    first = next(iter(usable.values()))
    best = max(common, key=lambda identity: _version(first[identity]["version"]))
    chosen = first[best]
    return Choice(
        Interpreter(chosen["version"], chosen["platform"], best),
        {host: pythons[best]["path"] for host, pythons in usable.items()},
    )


def kit_of(image: Image) -> Kit:
    """Returns the kit that *build* packed. Raises InfrastructureError when it is gone."""
    kit = read_kit(image.reference, kits_folder())
    if kit is None:
        raise InfrastructureError(
            f"{kits_folder()}/{image.reference} is gone: resume the run from the stage build"
        )
    return kit


def kit_files(kit: Kit) -> Mapping[str, str]:
    """Returns a kit's files by their names in the bundle."""
    return {f"{KIT}/{name}": path for name, path in kit.files.items()}


def make_venv(talk: Conversation, host: Host, folder: str, kit: Kit, choice: Choice) -> Made:
    """Makes a kit's venv on a host where it is missing; `folder` is the worker's, with the bundle in it."""
    fields: dict[str, Any] = {
        "venvs": posixpath.join(host.folder, VENVS),
        "base": kit.base,
        "layer": "" if kit.base == kit.key else kit.key,
        "python": choice.paths[host],
        "kit": posixpath.join(folder, "bundle", KIT),
        "labels": folder,
        "limit_s": _MAKE_S,
    }
    return Made(**talk.ask("make", program="venv", timeout_s=_MAKE_S + 60.0, **fields))


def write_logs(made: Mapping[Host, Made | SshError], folder: Folder) -> None:
    """Writes into a run's logs what was said where something was made, or was not."""
    for worker, told in enumerate(made.values()):
        text = str(told) if isinstance(told, SshError) else told.log
        if text:
            folder.write(f"{LOGS_FOLDER}/venv-{worker:04d}.log", text.encode())


def image_of(
    image: Image, told: Mapping[Host, Made | SshError], choice: Choice, folder: str
) -> tuple[Image, str]:
    """Returns the image as it is on the hosts, and a line about it. `folder` is slicebench's on the hosts.

    Raises InfrastructureError when hosts made different venvs of the same packages.
    """
    made = {host: venv for host, venv in told.items() if isinstance(venv, Made)}
    packages = agreed(made)
    versions = {name: packages[name] for name in SHOWN if name in packages}
    python = posixpath.join(folder, VENVS, image.reference, "bin", "python")
    new = [venv.seconds for venv in made.values() if not venv.reused]
    how = f"made on {len(new)} of them in up to {max(new):.1f} s" if new else "all had it already"
    said = f"venv {image.reference}: {how}; {', '.join(f'{name} {version}' for name, version in versions.items())}"
    versions["python"] = choice.interpreter.version
    return replace(image, python=python, versions={**image.versions, **versions}, reused=not new), said


def agreed(made: Mapping[Host, Made]) -> Mapping[str, str]:
    """Returns the packages that all hosts have. Raises InfrastructureError when they differ."""
    (first, venv), *others = made.items()
    for host, other in others:
        if other.packages != venv.packages:
            differing = sorted(set(other.packages.items()) ^ set(venv.packages.items()))
            names = ", ".join(dict.fromkeys(name for name, _ in differing))
            raise InfrastructureError(
                f"{host} and {first} made different venvs of the same packages: {names}"
            )
    return venv.packages


def usable_python(python: Mapping[str, Any], wanted: str | None = None) -> bool:
    """Says whether a Python that was found can make the venvs of workers; `wanted` (X.Y): and is of that version."""
    version = _version(python["version"])[:2]
    fits = OLDEST <= version <= NEWEST if wanted is None else version == _version(wanted)
    return bool(python["venv"]) and python["implementation"] == "CPython" and fits


def _none_usable(host: Host, pythons: Sequence[Mapping[str, Any]], wanted: str | None) -> Problem:
    needed = wanted or "3.11 to 3.14"
    what = f"{host}: workers need Python {needed} with venv; found: {_told(pythons)}"
    fix = "install one there (Debian and Ubuntu: sudo apt-get install python3 python3-venv), or name one with python:"
    return Problem("error", None, what, fix=fix)


def _told(pythons: Sequence[Mapping[str, Any]]) -> str:
    lines = (f"{one['path']} ({one['version']}{'' if one['venv'] else ', without venv'})" for one in pythons)
    return ", ".join(lines) or "none"


def _identity(python: Mapping[str, Any]) -> str:
    return "{implementation} {version} {platform} {libc}".format(**python)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.split(".")[:3])
