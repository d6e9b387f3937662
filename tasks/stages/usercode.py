"""Benchmark classes of the user's own: where their files lie, and whether they import where they will run."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError, Place, Problem
from tasks.cloud.command import clean_environment, run_command
from tasks.config.spec import RunSpec

_IMPORT_S = 120.0
_LARGEST_FILES = 1000
_TAKEN = frozenset({"runtime", "jax", "jaxlib", "orbax", "numpy", "tensorstore"})
_RUNTIME = Path(__file__).parents[2] / "runtime"
_CHECK = """
import importlib, json, sys
faults = {}
for path in json.loads(sys.argv[1]):
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None)
        if not isinstance(found, type):
            faults[path] = f"{module} has no class {name}"
    except BaseException as error:
        faults[path] = f"{type(error).__name__}: {error}"
sys.stdout.write("\\n" + json.dumps(faults))
"""


def foreign_generators(spec: RunSpec) -> list[str]:
    """Returns the dotted paths of a suite's classes that are not slicebench's own, each once, in order."""
    return list(dict.fromkeys(point.generator for point in spec.points if point.implementation != "native"))


def user_code(spec: RunSpec) -> Mapping[str, str]:
    """Returns what workers need to import the user's classes: name below `code/` → path here.

    A class is looked for beside the suite: `mybench.Save` in `mybench.py` or in a folder `mybench`. Then its
    file or folder is taken, and for a file also the modules beside it, which it may import; those that would
    hide a module of Python's own are left out. A class found nowhere there is expected to be installed.
    Raises BadInput for a module that would hide what workers need themselves.
    """
    beside = Path(spec.suite_path).parent
    files: dict[str, str] = {}
    for generator in foreign_generators(spec):
        top = generator.partition(".")[0]
        module, package = beside / f"{top}.py", beside / top
        if not module.is_file() and not package.is_dir():
            continue
        if top in _TAKEN or top in sys.stdlib_module_names:
            raise BadInput(
                Problem(
                    "error",
                    Place(spec.suite_path),
                    f"generator {generator}: a module {top!r} of yours would hide the one that workers need",
                    fix="rename it",
                )
            )
        for path in _package_files(package) if package.is_dir() else _modules(beside, top):
            files[path.relative_to(beside).as_posix()] = str(path)
        if len(files) > _LARGEST_FILES:
            raise BadInput(
                f"{beside} has over {_LARGEST_FILES} files of code", fix="keep benchmarks in a folder apart"
            )
    return files


def needs_orbax_classes(spec: RunSpec) -> bool:
    """Tells whether a suite runs Orbax's own benchmark framework, which needs TensorFlow and more."""
    if any(point.implementation == "orbax" for point in spec.points):
        return True
    own = user_code(spec)
    tops = {name.partition("/")[0].removesuffix(".py") for name in own}
    if any(generator.partition(".")[0] not in tops for generator in foreign_generators(spec)):
        return True
    return any("testing.benchmarks" in Path(path).read_text(errors="replace") for path in own.values())


def check_generators(spec: RunSpec, python: str) -> None:
    """Imports the suite's foreign classes with the interpreter of the venv, in a process without secrets.

    Raises BadInput naming each class that does not import and why.
    """
    generators = foreign_generators(spec)
    if not generators:
        return
    with tempfile.TemporaryDirectory(prefix="slicebench-") as folder:
        stage(user_code(spec), Path(folder))
        env = clean_environment() | {
            "PYTHONPATH": folder,
            "JAX_PLATFORMS": "cpu",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        argv = [python, "-c", _CHECK, json.dumps(generators)]
        try:
            done = run_command(argv, env=env, timeout_s=_IMPORT_S, cwd=Path(folder))
        except InfrastructureError as error:
            raise _refused(
                spec, {"the suite's classes": f"importing takes over {_IMPORT_S:.0f} s"}
            ) from error
    try:
        faults: dict[str, str] = json.loads(done.text.rpartition("\n")[2])
    except ValueError:
        faults = {
            ", ".join(
                generators
            ): f"importing ended Python with code {done.code}: {done.errors.strip()[-300:]}"
        }
    if faults:
        raise _refused(spec, faults)


def stage(files: Mapping[str, str], folder: Path) -> None:
    """Lays out the user's files and the runtime in a folder as they lie on a worker, by links."""
    (folder / "runtime").symlink_to(_RUNTIME)
    for name, path in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(path)


def _refused(spec: RunSpec, faults: Mapping[str, str]) -> BadInput:
    lines = spec.suite_text.splitlines()

    def place(generator: str) -> Place:
        found = (
            (number, line.index(generator) + 1)
            for number, line in enumerate(lines, start=1)
            if generator in line and "generator" in line
        )
        return Place(spec.suite_path, *next(found, (None, None)))

    return BadInput(
        [
            Problem(
                "error",
                place(generator),
                f"generator {generator} cannot be imported",
                reason,
                f"put its module beside {Path(spec.suite_path).name}, or correct the name",
            )
            for generator, reason in faults.items()
        ]
    )


def _modules(beside: Path, top: str) -> Iterator[Path]:
    for path in sorted(beside.glob("*.py")):
        if path.stem == top or (path.stem not in sys.stdlib_module_names and path.stem not in _TAKEN):
            yield path


def _package_files(package: Path) -> Iterator[Path]:
    for path in sorted(package.rglob("*")):
        hidden = any(
            part.startswith(".") or part == "__pycache__" for part in path.relative_to(package).parts
        )
        if path.is_file() and not hidden:
            yield path
