"""Nightly files: every mistake is told at its place; cells and names of runs follow from file and date alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from runtime.contract.errors import BadInput
from tasks.config.load import load_nightly
from tasks.config.nightly import NightlyConfig, Version
from tasks.config.nightly_cells import Night, night_of
from tasks.config.run_names import checked_run_id
from tasks.config.schemas import nightly_schema
from tasks.stages.nightly import open_night
from tasks.stages.nightly_plan import problems_of

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "configs" / "nightly").glob("*.yaml"))
SCHEMA = jsonschema.Draft202012Validator(nightly_schema())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_nightly_is_right_with_all_that_it_names(path: Path) -> None:
    SCHEMA.validate(yaml.safe_load(path.read_text()))
    assert problems_of(open_night(str(path), "2026-11-29")) == []


GOOD = """\
name: mine
timezone: America/Los_Angeles
suites: [a, b]
targets: [local, v5e-16]
versions: [pinned, newest, 0.10.1, {pr: 12, against: main, rounds: 3}, {label: f, repo: https://x.org/a/b, branch: c}]
exclude: [{suite: b, version: newest}]
include: [{suite: c, version: newest}]
elsewhere: {v5e-16: [other]}
limits: {cell: 2h, night: 8h, stop: 5m, at_once: 2}
budget: 12.5
thresholds: {time_s: 0.05}
alerts: {webhooks: [{url_env: URL}, {url_file: /run/secret, format: slack}]}
"""


def _loaded(tmp_path: Path, text: str) -> NightlyConfig:
    path = tmp_path / "n.yaml"
    path.write_text(text)
    return load_nightly(path)


def test_the_schema_takes_what_the_reader_takes(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(nightly_schema())
    SCHEMA.validate(yaml.safe_load(GOOD))
    config = _loaded(tmp_path, GOOD)
    assert [version.name for version in config.versions] == [
        "pinned",
        "newest",
        "jax-0.10.1",
        "pr-12",
        "f",
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nmae: x", "n.yaml:2:1: unknown key 'nmae', did you mean 'name'?"),
        ("timezone: Mars/Base", "n.yaml:2:1: timezone: 'Mars/Base' is no time zone"),
        ("versions: [{brnch: x}]", "n.yaml:2:13: unknown key 'brnch', did you mean 'branch'?"),
        ("versions: [latest]", "n.yaml:2:12: versions: 'latest' is not a JAX version"),
        ("versions: [nightly]", "n.yaml:2:12: versions: JAX nightlies are not in the usual package index"),
        ("versions: [{pr: 1, branch: b}]", "branch and pr exclude each other"),
        ("versions: [{against: main}]", "against needs something to compare"),
        ("versions: [{pr: 1, rounds: 5}]", "add against"),
        ("versions: [{repo: 'https://u:tok@x.org/a/b'}]", "was given with a password, token or query"),
        ("versions: [pined]", "did you mean pinned? write pinned, newest, nightly or x.y.z"),
        ("versions: [0.10]", "n.yaml:2:12: versions: 0.1 is a number: put the version in quotes, '0.10.0'"),
        ("versions: [{jax: 0.10}]", "n.yaml:2:13: jax: 0.1 is a number: put the version in quotes"),
        ("versions: [{commit: 1234567}]", "commit must be text, not 1234567, put it in quotes"),
        ("versions: [{jax_index: /}]", "no effect on the pinned JAX, write jax: nightly, or x.y.z"),
        (
            "versions: [pinned, pinned]",
            "n.yaml:2:20: two versions are called pinned, give one of them a label",
        ),
        ("suites: [a, a]", "n.yaml:2:13: suites has a twice, remove one of the two"),
        ("exclude: [{}]", "n.yaml:2:11: exclude: it would leave out everything"),
        ("exclude: [{target: gpu}]", "exclude leaves out a target 'gpu' that is not in the matrix: local"),
        ("exclude: [{suite: a}]", "n.yaml:2:1: every cell of the matrix is excluded, leave one in"),
        (
            "include: [{suite: a}]",
            "n.yaml:2:11: include has the cell a · local · pinned, which is there anyhow",
        ),
        ("include: [{suite: c}, {suite: c}]", "n.yaml:2:23: include has the cell c · local · pinned"),
        ("elsewhere: {local: [v4, local]}", "n.yaml:2:25: elsewhere has local in place of itself"),
        ("elsewhere: {local: [v4, v4]}", "n.yaml:2:25: elsewhere has v4 twice for local"),
        ("elsewhere: {local: []}", "n.yaml:2:13: elsewhere has nothing in place of local"),
        ("elsewhere: {v4: [v5]}", "elsewhere tells what to do without 'v4', which is no target here"),
        ("limits: {cell: soon}", "n.yaml:2:10: cell must be a time, such as 90s, 30m, 4h or 2d, not 'soon'"),
        ("budget: 0", "n.yaml:2:1: budget must be a number greater than 0"),
        ("budget: .inf", "n.yaml:2:1: budget must be a finite number, not inf"),
        ("thresholds: {time_s: 0}", "time_s must be a fraction such as 0.05, not 0"),
        ("thresholds: {speed: 0.1}", "there is no metric 'speed'"),
        ("thresholds: {time_s: 5}", "time_s must be a fraction such as 0.05, not 5"),
        ("alerts: {webhooks: [{}]}", "say where the URL is: url_env or url_file, one of them"),
        ("alerts: {webhooks: [{url: 'https://x'}]}", "unknown key 'url', known: url_env, url_file, format"),
        (
            "alerts: {webhooks: [{url_env: 'https://x'}]}",
            "a name of an environment variable, such as ALERTS_URL",
        ),
    ],
)
def test_what_is_wrong_is_told_where_it_stands(tmp_path: Path, line: str, told: str) -> None:
    rest = "" if line.startswith("suites") else "suites: [a]\n"
    with pytest.raises(BadInput) as refusal:
        _loaded(tmp_path, f"name: mine\n{line}\n{rest}")
    assert told in str(refusal.value)


@pytest.mark.parametrize("name", ["Mine", "1st", "a-name-that-is-far-too-long", ""])
def test_names_that_runs_cannot_begin_with_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="up to 20"):
        _loaded(tmp_path, f"name: '{name}'\nsuites: [a]\n")


def test_nothing_to_measure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is nothing to measure"):
        _loaded(tmp_path, "name: mine\n")


def test_a_cell_that_is_excluded_may_be_included_and_all_contradictions_are_told(tmp_path: Path) -> None:
    _loaded(tmp_path, "name: mine\nsuites: [a]\nexclude: [{suite: a}]\ninclude: [{suite: a}]\n")
    with pytest.raises(BadInput) as refusal:
        _loaded(tmp_path, "name: mine\nsuites: [a, a]\ntargets: [t, t]\n")
    assert len(refusal.value.problems) == 2


def _night(tmp_path: Path, text: str = GOOD, date: str = "2026-11-29") -> Night:
    return Night(_loaded(tmp_path, text), date, str(tmp_path), "/runs")


def test_the_matrix_is_what_is_named_without_and_with(tmp_path: Path) -> None:
    cells = [(cell.suite, cell.target, cell.version.name) for cell in _night(tmp_path).cells()]
    assert len(cells) == 2 * 2 * 5 - 2 + 1
    assert ("b", "local", "newest") not in cells
    assert ("c", "local", "newest") in cells


def test_every_run_of_a_night_has_a_name_of_its_own_which_is_the_same_on_a_retry(tmp_path: Path) -> None:
    long = (
        GOOD.replace("mine", "a-name-of-twenty-two"[:20])
        .replace("[a, b]", f"[{'a' * 80}, b]")
        .replace("suite: b", "suite: b")
    )
    night, again = _night(tmp_path, long), _night(tmp_path, long)
    runs = [run for cell in night.cells() for run in (*night.runs(cell), night.again(cell))]
    names = [run.run_id for run in runs]
    assert len(set(names)) == len(names)
    assert names == [run.run_id for cell in again.cells() for run in (*again.runs(cell), again.again(cell))]
    assert [checked_run_id(name) for name in names] == names
    other = _night(tmp_path, long, "2026-11-30")
    assert not set(names) & {run.run_id for cell in other.cells() for run in other.runs(cell)}


@pytest.mark.parametrize(
    ("fields", "other"),
    [
        ({"pr": 12, "against": "main"}, {"branch": "main", "pr": None, "repo": None}),
        (
            {"repo": "https://x.org/a/b", "branch": "c", "against": "main"},
            {"branch": "main", "repo": "https://x.org/a/b"},
        ),
        (
            {"repo": "https://x.org/a/b", "commit": "abcdef1", "against": "pinned"},
            {"commit": None, "repo": None},
        ),
    ],
)
def test_what_a_version_is_measured_against(fields: dict[str, Any], other: dict[str, Any]) -> None:
    version = Version.model_validate(fields)
    assert version.other_fields | other == version.other_fields
    assert version.request_fields["pr"] == fields.get("pr")


def test_a_night_has_the_date_of_its_time_zone(tmp_path: Path) -> None:
    config = _loaded(tmp_path, GOOD)
    at = datetime(2026, 11, 30, 5, 0, tzinfo=UTC)  # 21:00 of the day before in Los Angeles
    assert night_of(config, at, None) == "2026-11-29"
    assert night_of(config, at, "2026-12-01b") == "2026-12-01b"
    for wrong in ("tonight", "2026-13-01", "2026-12-01-b", ""):
        with pytest.raises(BadInput, match="is no night"):
            night_of(config, at, wrong)


def test_what_may_be_meant_otherwise_and_who_would_not_be_told_are_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_HOOK", raising=False)
    (tmp_path / "hook").write_text("sesame\n")
    hooks = "[{url_env: NO_HOOK}, {url_file: nosuch}, {url_file: hook}]"
    path = tmp_path / "n.yaml"
    path.write_text(
        f"name: mine\nsuites: [quickstart]\nlimits: {{night: 1h}}\nalerts: {{webhooks: {hooks}}}\n"
    )
    told = [str(one).removeprefix(str(tmp_path)) for one in problems_of(open_night(str(path), "2026-11-29"))]
    assert told == [
        "/n.yaml:4:22: warning: the webhook in $NO_HOOK is not there, nobody would be told by it, "
        "set NO_HOOK where the night is played, or take the webhook out",
        "/n.yaml:4:42: warning: the webhook in nosuch cannot be read: No such file or directory, nobody would be "
        "told by it, write that file where the night is played, or take the webhook out",
        "/n.yaml:4:62: warning: the webhook in hook is no address by http or https, nobody would be told by it, "
        "write that file where the night is played, or take the webhook out",
        "/n.yaml:3:1: warning: a run may take 4h, and the whole night 1h, what begins late goes on after its end, "
        "write cell: 1h, or a longer night",
    ]


def test_overrides_that_would_help_are_named_as_a_nightly_has_them(tmp_path: Path) -> None:
    path = tmp_path / "n.yaml"
    (tmp_path / "t.yaml").write_text("kind: local\nworkers: 3\ndevices_per_worker: 1\n")
    path.write_text("name: mine\nsuites: [slice_of_16]\ntargets: [./t.yaml]\n")
    [told] = map(str, problems_of(open_night(str(path), "2026-11-29")))
    assert "no mesh fits the target" in told and "--set" not in told
    assert 'for this one: set: ["mesh_config.ici_parallelism={' in told


def test_each_reason_is_told_once_also_of_targets_that_stand_in(tmp_path: Path) -> None:
    path = tmp_path / "n.yaml"
    path.write_text(
        "name: mine\nsuites: [quickstart, nosuch]\nversions: [pinned, 0.10.2]\nelsewhere: {local: [./west.yaml]}\n"
    )
    told = [str(one) for one in problems_of(open_night(str(path), "2026-11-29"))]
    assert [one.partition(":")[0] for one in told] == [
        "quickstart · west · pinned and 3 more cells",
        "nosuch · local · pinned and 3 more cells",
    ]
    assert f"there is no target '{tmp_path}/west.yaml'" in told[0] and "no suite 'nosuch'" in told[1]


def test_what_the_documentation_shows_is_right_but_for_what_it_names(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "nightly.md").read_text()
    shown, alerts = (part.partition("```")[0] for part in text.split("```yaml\n")[1:])
    _loaded(tmp_path, shown + alerts)
