"""`slicebench check SUITE TARGET` says whether they fit; each target that ships has a suite that does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flows.cli.check_fit import fit_of
from flows.cli.main import main

CONFIGS = Path(__file__).parents[3] / "configs"
TARGETS = sorted((CONFIGS / "targets").glob("*.yaml"))


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No project and no zone: what fits does not hang on them."""
    for name in ("SLICEBENCH_PROJECT", "GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "SLICEBENCH_ZONE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))


@pytest.mark.parametrize("target", TARGETS, ids=lambda path: path.stem)
def test_each_target_that_ships_has_a_suite_that_fits_as_it_is(target: Path) -> None:
    named = re.search(r"^# Its suite: (\w+)\.", target.read_text(), re.MULTILINE)
    suite = CONFIGS / "suites" / f"{named[1] if named else 'quickstart'}.yaml"
    problems, summary = fit_of(str(suite), str(target), ())
    assert (list(problems), summary.endswith("of it can run there")) == ([], True)


def test_what_does_not_fit_is_told_with_the_mesh_that_would(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "quickstart", "--target", "gke-v5e-16x2"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert ["ok" in line for line in told] == [True, True, False]
    meshes = re.findall(r"--set '([^']+)'", told[-1])
    assert meshes == ["mesh_config.ici_parallelism={model: 16}", "mesh_config.dcn_parallelism={data: 2}"]
    flags = [word for mesh in meshes for word in ("--set", mesh)]
    assert main(["check", "quickstart", "gke-v5e-16x2", *flags]) == 0


@pytest.mark.parametrize(
    ("suite", "target"),
    [("quickstart", "gke-h100x2"), ("two_slices_of_16", "v5e-16"), ("training", "gke-h100x2")],
)
def test_the_mesh_that_is_told_fits(suite: str, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", suite, target]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    flags = [
        word
        for quoted, bare in re.findall(r"--set (?:'([^']+)'|(\S+))", told)
        for word in ("--set", quoted or bare)
    ]
    assert flags and main(["check", suite, target, *flags]) == 0
