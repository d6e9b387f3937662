"""Environment of the workers: `--env` and env files, by Docker's rules, and which values are secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from runtime.contract.errors import BadInput, Place, Problem

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
_SECRET = (
    r"(?i)(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|KEY|APIKEY|CREDENTIAL|AUTH|COOKIE|DSN)S?(_|$)"
)
_HARMLESS = frozenset({"PWD", "OLDPWD", "GCP_KMS_BUCKET_KEY_MAPPING"})  # the last: names of keys
_OURS = "SLICEBENCH_"
_SET_FOR_WORKERS = {"PYTHONPATH": "workers import only what slicebench brings them"}
SET_IN_PODS = frozenset(
    {
        "JOBSET_NAME", "REPLICATED_JOB_NAME", "JOB_INDEX", "JOB_COMPLETION_INDEX", "PROCESSES_IN_JOB",
        "JAX_PROCESS_COUNT", "JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT", "MEGASCALE_NUM_SLICES",
        "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS", "NNODES", "NODE_RANK", "GPUS_PER_NODE",
        "CONTAINER_INDEX",
    }
)  # fmt: skip
"""What tells a pod which it is and where the others are: with another value they would not find each other."""
_SET_BY_GKE = frozenset({"TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"})
_OF_KUBERNETES = "KUBERNETES_"

_LARGEST = 1 << 20


class _Entry(NamedTuple):
    """One line or flag: a name, and a value unless the caller's environment is to give it."""

    name: str
    value: str | None
    place: Place


def resolve_env(
    env: Sequence[str], env_files: Sequence[str], environ: Mapping[str, str]
) -> tuple[dict[str, str], frozenset[str]]:
    """Returns the workers' environment, and the names whose values must never be written down.

    Files are read in order, then `env`; later ones win. `KEY` alone takes the value from `environ` and
    counts as secret, as does a name that sounds like one; where `environ` has no such variable, the line says
    nothing. Raises BadInput with every bad line, as file:line.
    """
    values: dict[str, str] = {}
    secret: set[str] = set()
    for entry in _entries(env, env_files):
        value = environ.get(entry.name) if entry.value is None else entry.value
        if value is None:
            continue
        values[entry.name] = value
        if entry.value is None or looks_secret(entry.name):
            secret.add(entry.name)
    return values, frozenset(secret)


def left_to_environ(env: Sequence[str], env_files: Sequence[str]) -> list[str]:
    """Returns the variables whose values are taken from the environment of whoever starts the workers.

    Raises BadInput as resolve_env does.
    """
    last = {entry.name: entry.value for entry in _entries(env, env_files)}
    return [name for name, value in last.items() if value is None]


def set_in_pods_by(name: str) -> str:
    """Returns who gives pods a variable, where that must have no other value; empty: anybody may."""
    if name in SET_IN_PODS:
        return "slicebench itself"
    if name in _SET_BY_GKE:
        return "GKE"
    return "Kubernetes" if name.startswith(_OF_KUBERNETES) else ""


def refused_in_pods(names: Iterable[str]) -> list[Problem]:
    """Returns what is wrong with giving pods variables of these names."""
    return [
        Problem(
            "error",
            Place("--env"),
            f"{name} is set by {who} in each pod",
            "with another value pods would not find each other, or their cluster",
            "leave it out",
        )
        for name in names
        if (who := set_in_pods_by(name))
    ]


def looks_secret(name: str) -> bool:
    """Tells whether a variable's name says that its value is a secret."""
    return name not in _HARMLESS and re.search(_SECRET, name) is not None


def _entries(env: Sequence[str], env_files: Sequence[str]) -> list[_Entry]:
    """Returns all that is given, those that win last. Raises BadInput with every bad line."""
    entries: list[_Entry] = []
    problems: list[Problem] = []
    for file in env_files:
        _collect(_lines(file, problems), entries, problems)
    _collect(((Place("--env"), text) for text in env), entries, problems)
    if problems:
        raise BadInput(problems)
    return entries


def _lines(file: str, problems: list[Problem]) -> Iterable[tuple[Place, str]]:
    path = Path(file).expanduser()
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError("larger than 1 MiB")
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = Place(file, data.removeprefix(b"\xef\xbb\xbf")[: error.start].count(b"\n") + 1)
        problems.append(Problem("error", place, "env file is not UTF-8 text", fix="save it as UTF-8"))
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        problems.append(
            Problem("error", Place(file), "env file cannot be read", reason or "", "name another")
        )
        return
    for number, line in enumerate(text.split("\n"), start=1):
        # Docker keeps trailing blanks of a value, and drops the leading ones of a line.
        stripped = line.removesuffix("\r").lstrip()
        if stripped and not stripped.startswith("#"):
            yield Place(file, number), stripped


def _collect(lines: Iterable[tuple[Place, str]], entries: list[_Entry], problems: list[Problem]) -> None:
    for place, text in lines:
        name, equals, value = text.partition("=")
        if not equals:
            name = name.rstrip()
        fault = wrong_variable(name, value)
        if fault is None:
            entries.append(_Entry(name, value if equals else None, place))
        else:
            problems.append(Problem("error", place, *fault))


def wrong_variable(name: str, value: str) -> tuple[str, str, str] | None:
    """Returns what is wrong with a variable, why, and what to do; None: nothing is."""
    # The value is never shown: it may be a secret.
    if name.startswith("export "):
        return "`export` does not belong here", "this is no shell script", f"write {name[7:].strip()}=…"
    if not re.fullmatch(_NAME, name):
        shown = name if len(name) <= 40 and name.isprintable() else f"{name[:40]!r}…"
        return f"{shown!r} is not the name of a variable", "", "write NAME=value, or NAME alone"
    if name.startswith(_OURS):
        return f"{name} belongs to slicebench itself", "", "leave it out"
    if name in _SET_FOR_WORKERS:
        return f"{name} has no effect", _SET_FOR_WORKERS[name], "put your modules beside the suite"
    if "\0" in value:
        return f"the value of {name} holds a NUL byte", "no environment can carry it", "take it out"
    return None
