"""Package indexes in folders, with tiny wheels named like the real ones: builds are quick and offline."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tasks.cloud.resolve import Lock

BACKEND = """
import base64, hashlib, json, os, zipfile
def _project():
    import tomllib
    with open("pyproject.toml", "rb") as file:
        return tomllib.load(file)["project"]
def _metadata(project):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    return "\\n".join(lines + [f"Requires-Dist: {d}" for d in project.get("dependencies", [])]) + "\\n"
def build_wheel(folder, config_settings=None, metadata_directory=None):
    project = _project()
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    files = {"orbax/checkpoint/__init__.py": open("orbax_fake.py").read()}
    files["orbax/checkpoint/built_with.json"] = json.dumps(dict(os.environ))
    files[f"{stem}.dist-info/METADATA"] = _metadata(project)
    files[f"{stem}.dist-info/WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    def row(name, text):
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(text.encode())}"
    record = [row(*item) for item in files.items()] + [f"{stem}.dist-info/RECORD,,"]
    files[f"{stem}.dist-info/RECORD"] = "\\n".join(record) + "\\n"
    with zipfile.ZipFile(os.path.join(folder, f"{stem}-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    open("left_behind_by_the_backend", "w").close()
    return f"{stem}-py3-none-any.whl"
"""
"""A build backend that needs no download; it writes what it saw of the environment into the wheel."""


def add_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    python: str = ">=3.11",
    files: Mapping[str, str] | None = None,
) -> str:
    """Writes a wheel; returns its pin with hash, as a line of a requirements file."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    extras = sorted({line.partition("extra == ")[2].strip("'\"") for line in requires if "extra ==" in line})
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {python}"]
    metadata += [f"Provides-Extra: {extra}" for extra in extras] + [
        f"Requires-Dist: {line}" for line in requires
    ]
    contents = {
        **(files or {f"{name.replace('-', '_')}.py": f"VERSION = {version!r}\n"}),
        f"{stem}.dist-info/METADATA": "\n".join(metadata) + "\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},{_digest(text.encode())},{len(text)}" for path, text in contents.items()]
    contents[f"{stem}.dist-info/RECORD"] = "\n".join([*rows, f"{stem}.dist-info/RECORD,,"]) + "\n"
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in contents.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def add_jax(
    folder: Path, version: str, *, python: str = ">=3.11", plugin: str = "cuda12", tpu: str = ""
) -> list[str]:
    """Writes jax, jaxlib and a CUDA plugin of one version, and libtpu of version `tpu` if given.

    Returns the pins of jax and jaxlib.
    """
    add_wheel(folder, f"jax-{plugin}-plugin", version, python=python)
    requires = [f"jaxlib=={version}", f"jax-{plugin}-plugin=={version} ; extra == '{plugin}'"]
    if tpu:
        add_wheel(folder, "libtpu", tpu)
        requires.append(f"libtpu=={tpu} ; extra == 'tpu'")
    jax = add_wheel(folder, "jax", version, requires=requires, python=python)
    return [jax, add_wheel(folder, "jaxlib", version, python=python)]


def lay_out_as_index(wheels: Path, index: Path) -> None:
    """Makes a folder that is laid out as a package index of the wheels in another."""
    for wheel in wheels.glob("*.whl"):
        project = index / wheel.name.split("-")[0].replace("_", "-")
        project.mkdir(parents=True, exist_ok=True)
        (project / wheel.name).write_bytes(wheel.read_bytes())
        with (project / "index.html").open("a") as page:
            page.write(f'<a href="{wheel.name}">{wheel.name}</a>\n')


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all uv can see: JAX 0.9.0, 0.10.0, and 0.11.0 for a newer Python; Orbax."""
    folder = tmp_path / "wheels"
    for version in ("0.9.0", "0.10.0"):
        add_jax(folder, version)
    add_jax(folder, "0.11.0", python=">=3.13")
    add_wheel(folder, "numpy", "2.0")
    add_wheel(folder, "numpy", "2.1")
    add_wheel(
        folder, "orbax-checkpoint", "0.12.8", requires=["jax", "numpy"], files={"orbax/checkpoint/a.py": ""}
    )
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    (tmp_path / "empty-index").mkdir()
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "empty-index").as_uri())
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return folder


@pytest.fixture
def lock(wheels: Path, tmp_path: Path) -> Lock:
    """A lock of those: JAX 0.9.0, numpy 2.0."""
    wanted, pins = tmp_path / "requirements.in", tmp_path / "requirements.lock"
    wanted.write_text("jax\nnumpy\norbax-checkpoint==0.12.8\n")
    lines = [*add_jax(wheels, "0.9.0"), add_wheel(wheels, "numpy", "2.0")]
    lines.append(
        add_wheel(
            wheels,
            "orbax-checkpoint",
            "0.12.8",
            requires=["jax", "numpy"],
            files={"orbax/checkpoint/a.py": ""},
        )
    )
    pins.write_text("\n".join(lines) + "\n")
    return Lock(wanted, pins, tmp_path)


def write_orbax_source(folder: Path, version: str, *, dependencies: Sequence[str] = ("jax",)) -> None:
    """Writes a tiny orbax-checkpoint as Orbax's repository lays it out, below checkpoint/."""
    package = folder / "checkpoint"
    package.mkdir(parents=True, exist_ok=True)
    needs = ", ".join(f'"{name}"' for name in dependencies)
    (package / "pyproject.toml").write_text(
        f'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "orbax-checkpoint"\nversion = "{version}"\ndependencies = [{needs}]\n'
    )
    (package / "backend.py").write_text(BACKEND)
    (package / "orbax_fake.py").write_text(f"VERSION = {version!r}\n")


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
