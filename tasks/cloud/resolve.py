"""Decides which packages a worker gets: the lock, or the lock bent as little as a request demands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.contract.errors import BadInput
from tasks.cloud.uv import run_uv

Say = Callable[[str], None]

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
_ORBAX = "orbax-checkpoint"
_CUDA = ("cuda12", "cuda13")
_TPU = ("tpu", "libtpu")
_PARTS = ("jax", "jaxlib", _TPU[1], *(f"jax-{cuda}-{part}" for cuda in _CUDA for part in ("plugin", "pjrt")))
_NEWER_PYTHON = "3.13"
_PRERELEASE = re.compile(r"(a|b|rc|\.?dev)\d+$")

RUNTIME = Path(__file__).parents[2] / "runtime"


@dataclass(frozen=True)
class Lock:
    """What workers need (`wanted`), what that was resolved to (`pins`), and the folder of extras."""

    wanted: Path = RUNTIME / "requirements.in"
    pins: Path = RUNTIME / "requirements.lock"
    extras: Path = RUNTIME

    def extra(self, name: str) -> Path:
        """Returns the file that says what an extra needs."""
        return self.extras / f"requirements-{name}.in"


@dataclass(frozen=True)
class Request:
    """What the packages must be good for. `jax` is locked, newest, nightly or x.y.z.

    `computes`: what workers need is among the packages, JAX above all; without it only extras are. With a `tree`,
    Orbax is built from there: only what it depends on is among the packages. `elsewhere`: version and platform (as uv
    names it) of a Python that is not on this machine, for which the packages must be good.
    """

    jax: str = "locked"
    jax_index: str | None = None
    gpu: bool = False
    tpu: bool = False
    extras: tuple[str, ...] = ()
    computes: bool = True
    tree: Path | None = None
    elsewhere: tuple[str, str] | None = None

    def python_options(self, python: str) -> list[str]:
        """Returns what tells uv for which Python to look; `python` is an interpreter here."""
        if self.elsewhere is None:
            return ["--python", python]
        version, platform = self.elsewhere
        return ["--python", python, "--python-version", version, "--python-platform", platform]


@dataclass(frozen=True)
class Resolved:
    """Pins with hashes, in the format of requirements files, and the JAX among them, or "locked"."""

    text: str
    jax: str


def pins(text: str) -> dict[str, str]:
    """Returns name → version of a requirements file. Where markers give a name twice, the last one."""
    return {name.lower().replace("_", "-"): version for name, version in _PIN.findall(text)}


def resolve(request: Request, lock: Lock, python: str, work: Path, *, say: Say) -> Resolved:
    """Resolves a request for the interpreter `python`; `work` is an empty folder for temporary files.

    The lock is used as it is where nothing else is asked for: then no index is asked either. Raises BadInput
    for a JAX that does not exist, or not for this Python, naming what does.
    """
    locked = lock.pins.read_text()
    if replace(request, elsewhere=None) == Request():
        return Resolved(locked, "locked")
    text = ""
    for extra, package in _plugins(request):
        text = _compile(request, lock, python, work, extra, say=say)
        if not package or package in pins(text):
            break
    else:
        what = "CUDA plugin for this machine" if request.gpu else f"{_TPU[1]} for the workers"
        raise BadInput(f"JAX {pins(text)['jax']} has no {what}", fix="name another JAX")
    jax = pins(text)["jax"] if request.computes else ""
    if request.jax == "nightly" and not _PRERELEASE.search(jax):
        raise BadInput(
            f"{request.jax_index} holds no JAX nightly for this Python: the newest there is {jax}",
            fix="name the index of nightlies with --jax-index",
        )
    return Resolved(text, jax)


def _plugins(request: Request) -> Sequence[tuple[str, str]]:
    """Returns the extras of JAX that would do, each with the package that it brings when it exists."""
    if request.gpu:
        return [(cuda, f"jax-{cuda}-plugin") for cuda in _CUDA]
    return [_TPU if request.tpu else ("", "")]


def _compile(request: Request, lock: Lock, python: str, work: Path, plugin: str, *, say: Say) -> str:
    wanted, output = work / "wanted.in", work / "resolved.lock"
    wanted.write_text("\n".join(_wanted(request, lock, plugin)) + "\n")
    # uv prefers the versions it finds in its output file: whatever need not change does not.
    output.write_text(
        _without_jax(lock.pins.read_text()) if request.jax != "locked" else lock.pins.read_text()
    )
    sources = [str(wanted)]
    if request.tree is not None:
        sources.append(str(request.tree / "pyproject.toml"))
    _refuse_unknown(request, python, work)
    run_uv(
        "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate",
        "--no-emit-package", _ORBAX if request.tree is not None else "slicebench",
        *request.python_options(python), "--output-file", str(output),
        *_prereleases(request.jax), *sources,
        jax_index=request.jax_index,
        foreign_code=request.tree is not None,
        cwd=work,
    )  # fmt: skip
    text = output.read_text()
    if request.jax == "newest":
        _tell_of_newer(pins(text)["jax"], work, python, say=say)
    return text


def _prereleases(jax: str) -> Iterator[str]:
    """Yields the options that let uv take pre-releases of JAX and its parts, and of nothing else."""
    if jax == "nightly" or _PRERELEASE.search(jax):
        for name in _PARTS:
            yield from ("--prerelease-package", f"{name}=allow")


def _wanted(request: Request, lock: Lock, plugin: str) -> Iterator[str]:
    extra = f"[{plugin}]" if plugin else ""
    lines = [line.strip() for line in lock.wanted.read_text().splitlines()] if request.computes else []
    for name in request.extras:
        lines += lock.extra(name).read_text().splitlines()
    for line in lines:
        name = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        if not name or name == "jax" or (name == _ORBAX and request.tree is not None):
            continue
        yield line
    if not request.computes:
        return
    match request.jax:
        case "locked" | "newest" | "nightly":
            yield f"jax{extra}"
        case version:
            yield f"jax{extra}=={version}"


def _without_jax(text: str) -> str:
    """Returns a lock without the pins of JAX and its parts, so that they may move."""
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return "".join(entry for entry in entries if not re.match(r"jax(lib|-[a-z0-9-]+)?\b", entry))


def _tell_of_newer(have: str, work: Path, python: str, *, say: Say) -> None:
    newest = _one_version("jax", work, *_for_newer(python))
    if newest is not None and newest != have:
        say(f"JAX {newest} exists, for a newer Python than this; the newest for this one is {have}")


def _for_newer(python: str) -> Sequence[str]:
    """Returns what tells uv to look for a newer Python, for which it would search this machine if it had no other."""
    return ("--no-deps", "--python", python, "--python-version", _NEWER_PYTHON)


def _one_version(requirement: str, work: Path, *options: str, jax_index: str | None = None) -> str | None:
    """Returns the version of JAX that a requirement alone leads to, or None when there is none."""
    question = work / "question.in"
    question.write_text(f"{requirement}\n")
    try:
        answer = run_uv(
            "pip", "compile", "--quiet", "--no-header", "--no-annotate", *options, str(question),
            jax_index=jax_index,
            cwd=work,
        )  # fmt: skip
    except BadInput:
        return None
    return pins(answer.text).get("jax")


def _refuse_unknown(request: Request, python: str, work: Path) -> None:
    """Raises BadInput for a version of JAX that does not exist, naming those nearest to it; before all is resolved."""
    version, index = request.jax, request.jax_index
    if version in ("locked", "newest", "nightly"):
        return
    alone = request.python_options(python)  # without --no-deps: only what a version needs tells of its Python
    if _one_version(f"jax=={version}", work, *alone, jax_index=index) is not None:
        return
    below = _one_version(f"jax<{version}", work, *alone, jax_index=index)
    above = _one_version(f"jax>{version}", work, *alone, "--resolution", "lowest", jax_index=index)
    near = ", ".join(candidate for candidate in (below, above) if candidate)
    fix = f"nearest for this Python: {near}" if near else "is the package index right?"
    if _one_version(f"jax=={version}", work, *_for_newer(python), jax_index=index) is not None:
        raise BadInput(f"JAX {version} needs a newer Python than this", fix=fix)
    raise BadInput(f"there is no JAX {version}", fix=fix)
