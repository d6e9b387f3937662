"""A user's own benchmark class is found beside the suite, carried to the workers, and looked at before it runs."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.config.spec import RunSpec
from tasks.stages.upload import users_code
from tasks.stages.usercode import check_generators, needs_orbax_classes, stage, user_code
from tests.tasks.stages.test_build import make_run, point


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suites"
    (folder / "package" / "__pycache__").mkdir(parents=True)
    (folder / "mybench.py").write_text("import helper\nclass Save(helper.Base): pass\nbroken = 3\n")
    (folder / "helper.py").write_text("from runtime.contract.suite import Point\nclass Base: point = Point\n")
    (folder / "json.py").write_text("raise SystemExit('hides the real one')\n")
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "bench.py").write_text("class Load: pass\n")
    (folder / "package" / "sizes.csv").write_text("1\n")
    (folder / "package" / "__pycache__" / "x.pyc").write_text("")
    (folder / "suite.yaml").write_text("")
    return folder / "suite.yaml"


def spec(suite: Path, *generators: str) -> RunSpec:
    text = "suite_name: s\nbenchmarks:\n" + "".join(
        f"- generator: {name}\n  options: {{}}\n" for name in generators
    )
    points = [point(), *(point(name, "user") for name in generators)]
    return make_run(suite.parent, suite_path=str(suite), suite_text=text, points=points).spec


def test_nothing_of_a_native_suite_is_carried(suite: Path) -> None:
    assert user_code(spec(suite)) == {} and not needs_orbax_classes(spec(suite))
    check_generators(spec(suite), "/no/python/is/started")


def test_a_module_comes_with_its_neighbours_and_a_package_whole(suite: Path) -> None:
    assert set(user_code(spec(suite, "mybench.Save"))) == {"mybench.py", "helper.py"}
    package = user_code(spec(suite, "package.bench.Load"))
    assert set(package) == {"package/__init__.py", "package/bench.py", "package/sizes.csv"}
    assert package["package/bench.py"] == str(suite.parent / "package" / "bench.py")
    assert user_code(spec(suite, "elsewhere.Thing")) == {}
    run = dataclasses.replace(make_run(suite.parent), spec=spec(suite, "package.bench.Load"))
    assert users_code(run)["code/package/bench.py"] == package["package/bench.py"]


def test_it_imports_as_on_a_worker(suite: Path, tmp_path: Path) -> None:
    check_generators(spec(suite, "mybench.Save", "package.bench.Load"), sys.executable)
    stage(user_code(spec(suite, "mybench.Save")), tmp_path)
    assert (tmp_path / "runtime" / "contract" / "suite.py").is_file() and (tmp_path / "helper.py").is_file()


def test_what_does_not_import_is_told_with_its_line(suite: Path) -> None:
    (suite.parent / "bad.py").write_text("print('chatter')\nraise RuntimeError('no luck')\n")
    with pytest.raises(BadInput) as caught:
        check_generators(
            spec(suite, "package.bench.Load", "mybench.Sve", "bad.X", "absent.X", "mybench.broken"),
            sys.executable,
        )
    told = str(caught.value).splitlines()
    assert len(told) == 4
    assert told[0].startswith(
        f"{suite}:5:14: generator mybench.Sve cannot be imported, mybench has no class Sve"
    )
    assert (
        "RuntimeError: no luck" in told[1] and "No module named 'absent'" in told[2] and "broken" in told[3]
    )


def test_a_class_that_ends_python_is_told(suite: Path) -> None:
    (suite.parent / "killer.py").write_text("import os\nos._exit(3)\n")
    with pytest.raises(BadInput, match="importing ended Python with code 3"):
        check_generators(spec(suite, "killer.X"), sys.executable)


def test_importing_sees_no_secret(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hush")
    (suite.parent / "curious.py").write_text(
        "import os\nassert 'HF_TOKEN' not in os.environ\nclass X: pass\n"
    )
    check_generators(spec(suite, "curious.X"), sys.executable)


@pytest.mark.parametrize("name", ["runtime", "jax", "json"])
def test_a_module_that_hides_another_is_refused(suite: Path, name: str) -> None:
    (suite.parent / f"{name}.py").write_text("class X: pass\n")
    with pytest.raises(BadInput, match=f"{name}.*rename it"):
        user_code(spec(suite, f"{name}.X"))


def test_what_is_derived_from_orbaxs_harness_needs_it(suite: Path) -> None:
    assert not needs_orbax_classes(spec(suite, "mybench.Save"))
    assert needs_orbax_classes(spec(suite, "elsewhere.Thing"))
    (suite.parent / "own.py").write_text("from orbax.checkpoint._src.testing.benchmarks.core import core\n")
    assert needs_orbax_classes(spec(suite, "own.X"))
