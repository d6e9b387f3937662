"""Overrides change exactly one value, keep what the file says around it, and say what they cannot find."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.errors import BadInput
from runtime.contract.overrides import apply_overrides, graft
from runtime.contract.yamlfile import load, place_of

TEXT = """\
# what this is for
suite_name: x  # its name
num_repeats: 3
benchmarks:
- generator: a.B
  options:
    use_ocdbt: true  # keep
    many:
    - 1
    - 2
  deadline_s: 3
mesh_config: {mesh_axes: [a, b], ici_parallelism: {}}
shared: &s {k: 1}
alias: *s
"""


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("num_repeats=5", ["num_repeats"], 5),
        ("suite_name=", ["suite_name"], None),
        ("suite_name='5'", ["suite_name"], "5"),
        ("suite_name=a: b", ["suite_name"], {"a": "b"}),
        ("suite_name=a=b", ["suite_name"], "a=b"),
        ("warmup=2", ["warmup"], 2),
        (
            "benchmarks.0.options.use_ocdbt=[true,false]",
            ["benchmarks", 0, "options", "use_ocdbt"],
            [True, False],
        ),
        ("benchmarks.0.options.many=7", ["benchmarks", 0, "options", "many"], 7),
        ("benchmarks.0.options.many.1={a: [1]}", ["benchmarks", 0, "options", "many", 1], {"a": [1]}),
        ("benchmarks.0.options.fresh=1.5", ["benchmarks", 0, "options", "fresh"], 1.5),
        ("benchmarks.0.options={}", ["benchmarks", 0, "options"], {}),
        ("mesh_config.mesh_axes.1=c", ["mesh_config", "mesh_axes", 1], "c"),
        ("mesh_config.ici_parallelism.a=2", ["mesh_config", "ici_parallelism", "a"], 2),
        ("benchmarks=[]", ["benchmarks"], []),
    ],
)
def test_one_value_changes_and_nothing_else(assignment: str, path: list[str | int], value: object) -> None:
    changed = apply_overrides(TEXT, [assignment])
    expected = yaml.safe_load(TEXT)
    parent = expected
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = value
    assert yaml.safe_load(changed) == expected
    assert "# what this is for" in changed


def test_what_is_shared_by_an_alias_changes_in_one_place_only() -> None:
    changed = yaml.safe_load(apply_overrides(TEXT, ["alias.k=2"]))
    assert (changed["alias"], changed["shared"]) == ({"k": 2}, {"k": 1})
    changed = yaml.safe_load(apply_overrides(TEXT, ["shared.k=2"]))
    assert (changed["alias"], changed["shared"]) == ({"k": 1}, {"k": 2})


def test_lines_stay_where_they_are_when_a_value_is_replaced() -> None:
    changed = apply_overrides(TEXT, ["num_repeats=50", "benchmarks.0.options.use_ocdbt=[true, false]"])
    assert [line.partition(":")[0] for line in changed.splitlines()] == [
        line.partition(":")[0] for line in TEXT.splitlines()
    ]
    assert "use_ocdbt: [true, false]  # keep" in changed


def test_assignments_follow_each_other() -> None:
    options = "benchmarks.0.options"
    changed = apply_overrides(TEXT, [f"{options}={{}}", f"{options}.a=[1, 2]", f"{options}.a.0=3"])
    assert yaml.safe_load(changed)["benchmarks"][0]["options"] == {"a": [3, 2]}


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("num_repeats", "override 'num_repeats' is not KEY=VALUE, write num_repeats=5"),
        ("=5", "override '=5' is not KEY=VALUE"),
        ("a..b=5", "override 'a..b=5' is not KEY=VALUE"),
        ("nope.a=1", "there is no nope in the suite, the suite has suite_name, num_repeats"),
        ("benchmark.0.options.a=1", "there is no benchmark in the suite, did you mean 'benchmarks'?"),
        ("benchmarks.1=1", "there is no benchmarks.1 in the suite, benchmarks has items 0 to 0"),
        ("benchmarks.x=1", "there is no benchmarks.x in the suite"),
        ("num_repeats.x=1", "there is no num_repeats.x in the suite, num_repeats is 3, which has no parts"),
        ("num_repeats=[1", "override 'num_repeats=[1': not YAML"),
        ("num_repeats={a: 1, a: 2}", "key 'a' is given twice"),
    ],
)
def test_what_cannot_be_set_is_told(assignment: str, says: str) -> None:
    with pytest.raises(BadInput) as refusal:
        apply_overrides(TEXT, [assignment])
    assert says in str(refusal.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadInput) as refusal:
        apply_overrides(TEXT, ["x", "num_repeats=4", "nope.a=1"])
    assert len(refusal.value.problems) == 2


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.text(alphabet="abcdefgh_", min_size=1, max_size=4)


@given(
    st.dictionaries(_NAMES, st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=3), min_size=1, max_size=3),
    _VALUES,
    st.sampled_from([None, True, False]),
    st.data(),
)
def test_any_value_replaces_any_other(
    data: dict[str, dict[str, object]], value: object, flow: bool | None, draw: st.DataObject
) -> None:
    outer = draw.draw(st.sampled_from(sorted(data)))
    inner = draw.draw(st.sampled_from(sorted(data[outer])) | _NAMES)
    text = yaml.safe_dump(data, default_flow_style=flow)
    written = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n")
    changed = yaml.safe_load(apply_overrides(text, [f"{outer}.{inner}={written}"]))
    assert changed == {**data, outer: {**data[outer], inner: value}}


@pytest.mark.parametrize(
    ("assignment", "expected", "path"),
    [
        ("b.c=2", {"a": [1, {"k": None}], "b": {"c": 2}}, ["b", "c"]),
        ("b.d.e=[x]", {"a": [1, {"k": None}], "b": {"c": 1, "d": {"e": ["x"]}}}, ["b", "d", "e", 0]),
        ("a.1.k.z=1", {"a": [1, {"k": {"z": 1}}], "b": {"c": 1}}, ["a", 1, "k", "z"]),
        ("b=", {"a": [1, {"k": None}], "b": None}, ["b"]),
    ],
)
def test_what_is_grafted_stands_where_it_was_said(
    assignment: str, expected: object, path: list[str | int]
) -> None:
    root = load("a: [1, {k: null}]\nb: {c: 1}\n", "f.yaml").root
    assert root is not None
    grafted = graft(root, [assignment], example="x=1")
    assert grafted.value == expected
    assert str(place_of(grafted, path)) == f"--set {assignment}"
    assert str(place_of(grafted, ["a"])) == "f.yaml:1:1"


def test_all_that_cannot_be_grafted_is_told() -> None:
    root = load("a: [1]\nb: x\n", "f.yaml").root
    assert root is not None
    with pytest.raises(BadInput) as refused:
        graft(root, ["a.1=2", "b.c=1", "a", "b=[", "a.x=1"], example="x=1")
    told = str(refused.value)
    for words in (
        "there is no a.1, it has items 0 to 0",
        "there is no b.c, b is 'x'",
        "'a' is not KEY=VALUE",
    ):
        assert words in told
    assert len(refused.value.problems) == 5
