"""The schemas accept every shipped file and refuse what `check` refuses in shape."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from runtime.contract.generator import ORBAX_PREFIX
from runtime.contract.generators_of_orbax import ORBAX
from runtime.contract.generators_of_ours import OURS
from runtime.contract.suite_reader import SUITE_KEYS, inspect_suite
from tasks.config.schemas import suite_schema, target_schema

ROOT = Path(__file__).parents[3]
SUITES = sorted((ROOT / "configs" / "suites").glob("*.yaml"))
TARGETS = sorted((ROOT / "configs" / "targets").glob("*.yaml"))
SUITE = jsonschema.Draft202012Validator(suite_schema())

GOOD = """\
suite_name: Good
mesh_config: {mesh_axes: [data, model], ici_parallelism: {data: 2}, dcn_parallelism: null}
checkpoint_config:
  spec: {a: {dtype: float32, shape: [8, 8], sharding: [[data, model], null]}, deep: {step: int, more: {}}}
benchmarks:
  - generator: runtime.benchmarks.pytree_checkpoint.PyTreeCheckpoint
    options: {use_ocdbt: [true, false], save_concurrent_gb: [null, 4]}
"""


def test_the_schemas_are_schemas() -> None:
    jsonschema.Draft202012Validator.check_schema(suite_schema())
    jsonschema.Draft202012Validator.check_schema(target_schema())


def test_the_schema_knows_every_key_that_the_reader_knows() -> None:
    assert set(suite_schema()["properties"]) == set(SUITE_KEYS)


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.name)
def test_every_shipped_suite_fits_the_schema_and_is_right(path: Path) -> None:
    text = path.read_text()
    SUITE.validate(yaml.safe_load(text))
    assert inspect_suite(text, path.name)[1] == []


@pytest.mark.parametrize("path", TARGETS, ids=lambda path: path.name)
def test_every_shipped_target_fits_the_schema(path: Path) -> None:
    jsonschema.Draft202012Validator(target_schema()).validate(yaml.safe_load(path.read_text()))


def test_there_is_a_suite_for_each_benchmark() -> None:
    shown = {item["generator"] for path in SUITES for item in yaml.safe_load(path.read_text())["benchmarks"]}
    assert {generator.name for generator in (*ORBAX, *OURS)} == shown


def test_the_docs_list_each_benchmark_with_its_suite() -> None:
    rows = [
        line for line in (ROOT / "docs" / "benchmarks.md").read_text().splitlines() if line.startswith("| `")
    ]
    told = "\n".join(rows)
    for generator in (*ORBAX, *OURS):
        assert f"`{generator.name.removeprefix(ORBAX_PREFIX)}`" in told
        for operation in generator.known_by:
            assert operation.strip("*").strip("_") in told
    for path in SUITES:
        assert f"(../configs/suites/{path.name})" in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("suite_name", "suit_name"),
        ("suite_name: Good", "suite_name: 5"),
        ("suite_name: Good", "suite_name: Good\nnum_repeats: 0"),
        ("suite_name: Good", "suite_name: Good\nmesh_configs: [{mesh_axes: [a]}]"),
        ("data: 2", "data: two"),
        ("[data, model], ici", "[data, data], ici"),
        ("float32", "float31"),
        ("[8, 8]", "[8, 0]"),
        ("step: int", "step: float"),
        ("use_ocdbt: [true, false]", "use_ocdb: true"),
        ("use_ocdbt: [true, false]", "use_ocdbt: 1"),
        ("use_ocdbt: [true, false]", "use_ocdbt: []"),
        ("use_ocdbt: [true, false]", "use_ocdbt: [true, true]"),
        ("[null, 4]", "four"),
        ("runtime.benchmarks.pytree_checkpoint.PyTreeCheckpoint", "PyTreeCheckpoint"),
        ("    options", "    implementation: fast\n    options"),
        ("    options", "    disruption: {}\n    options"),
        ("    options", "    disruption: {at_step: 1, after_s: 2}\n    options"),
        ("    options", "    disruption: {after_s: 2, moment: saved}\n    options"),
        ("    options", "    disruption: {at_step: 1, worker: any}\n    options"),
    ],
)
def test_what_the_reader_refuses_in_shape_the_schema_refuses_too(old: str, new: str) -> None:
    assert old in GOOD
    SUITE.validate(yaml.safe_load(GOOD))
    assert inspect_suite(GOOD, "s.yaml")[0] is not None
    text = GOOD.replace(old, new)
    assert not SUITE.is_valid(yaml.safe_load(text))
    assert inspect_suite(text, "s.yaml")[0] is None
