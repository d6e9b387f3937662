"""The loader gives what yaml.safe_load gives, knows where everything stands, and refuses bombs and doubts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contract import yamlfile
from runtime.contract.errors import BadInput
from runtime.contract.nearest import nearest
from runtime.contract.yamlfile import load, place_of, read_text

_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12) | st.dates()
)
_KEYS = st.text(max_size=8)
_DATA = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


def _told(text: str) -> list[str]:
    return [str(problem) for problem in load(text, "f.yaml").problems]


@given(st.dictionaries(_KEYS, _DATA, min_size=1, max_size=4), st.sampled_from([None, True, False]))
def test_values_are_those_of_safe_load(data: dict[str, object], flow: bool | None) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True)
    loaded = load(text, "f.yaml")
    assert loaded.problems == ()
    assert loaded.root is not None
    expected = yaml.safe_load(text)
    assert loaded.root.value == expected
    assert repr(loaded.root.value) == repr(expected)


@pytest.mark.parametrize(
    "scalar",
    [
        *("1", "0x1f", "0o17", "017", "1_000", "1e3", "1.0e3", "1.5", ".inf", "1.", "-.5", "+1", "0b11"),
        *("yes", "No", "on", "~", "null", "=", "12:30", "2024-01-02", "'1'", '"a\\tb"'),
        *("| \n  text\n", "> \n  folded\n  text\n"),
    ],
)
def test_scalars_follow_yaml_1_1_as_safe_load_does(scalar: str) -> None:
    text = f"a: {scalar}"
    loaded = load(text, "f.yaml")
    try:
        expected = yaml.safe_load(text)
    except yaml.YAMLError:
        assert loaded.problems
        return
    assert loaded.root is not None
    assert repr(loaded.root.value) == repr(expected)


def test_anchors_and_merge_keys_are_those_of_safe_load() -> None:
    text = "base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo:\n  <<: [*b, {z: 4}]\nthree: *b\n"
    loaded = load(text, "f.yaml")
    assert loaded.root is not None and loaded.problems == ()
    assert loaded.root.value == yaml.safe_load(text)


@settings(max_examples=200)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@,? \n\t1", max_size=40))
def test_any_text_gives_values_or_problems_but_never_an_exception(text: str) -> None:
    loaded = load(text, "f.yaml")
    assert loaded.problems or loaded.root is not None
    if not loaded.problems and loaded.root is not None:
        assert repr(loaded.root.value) == repr(yaml.safe_load(text))


def test_every_key_and_value_has_its_place() -> None:
    root = load("a: 1\nb:\n  - x\n  - {c: yes}\n", "f.yaml").root
    assert root is not None
    assert str(place_of(root, ["a"])) == "f.yaml:1:1"
    assert str(root.at(["b", 1, "c"]).place) == "f.yaml:4:9"  # type: ignore[union-attr]
    assert str(place_of(root, ["b", 1, "c"])) == "f.yaml:4:6"
    assert str(place_of(root, ["b", 0])) == "f.yaml:3:5"
    assert root.at(["b", 7]) is None and root.at(["nope", "x"]) is None


def test_a_path_through_a_union_or_to_a_missing_key_leads_as_far_as_it_can() -> None:
    root = load("kind: local\nworkers: 0\n", "f.yaml").root
    assert root is not None
    assert str(place_of(root, ["local", "workers"])) == "f.yaml:2:1"
    assert str(place_of(root, ["missing"])) == "f.yaml:1:1"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1", "key 'a' is given twice, first on line 1"),
        ("a:\n\t- b\n", "f.yaml:2:1", "indent with spaces, never with tabs"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:2", "check indentation, brackets and quotes here"),
        ("a: b: c\n", "f.yaml:1:5", "quote the text that holds ': '"),
        ("1: a\n", "f.yaml:1:1", "key 1 is read as an integer, not as text, write '1' in quotes"),
        ("a: 1\nyes: b\n", "f.yaml:2:1", "key yes is read as a bool"),
        ("? [a, b]\n: c\n", "f.yaml:1:3", "is read as a list, not as text"),
        ("a: *x\n", "f.yaml:1:4", "found undefined alias 'x'"),
        ("a: &x [*x]\n", "f.yaml:1:4", "an alias refers to a value that holds it"),
        ("a: !!python/object/apply:os.system ['true']\n", "f.yaml:1:4", "is not supported"),
        ("a: !!python/name:os.system x\n", "f.yaml:1:4", "is not supported"),
        ("a: !!set {b, c}\n", "f.yaml:1:4", "tag set is not supported, write a plain mapping or list"),
        ("a: 2024-13-45\n", "f.yaml:1:4", "'2024-13-45' is not a timestamp, put it in quotes"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1", "keep one document"),
        ("a: 1\nb: x\x07\n", "f.yaml:2:5", "character 0x7 is not allowed in YAML"),
        ("", "f.yaml:1:1", "the file is empty"),
        ("# nothing\n", "f.yaml:1:1", "the file is empty"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, place: str, words: str) -> None:
    told = _told(text)
    assert len(told) == 1
    assert told[0].startswith(f"{place}: ")
    assert words in told[0]


def test_all_duplicate_keys_are_told_and_the_rest_is_still_read() -> None:
    loaded = load("a: 1\na: 2\nb: {c: 1, c: 2}\n", "f.yaml")
    assert len(loaded.problems) == 2
    assert loaded.root is not None


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (told,) = _told("\n".join(lines))
    assert "once aliases are followed" in told


def test_depth_and_size_are_limited() -> None:
    (deep,) = _told("[" * 5_000)
    assert f"nested deeper than {yamlfile.MAX_DEPTH} levels" in deep
    (long,) = _told("x" * (yamlfile.MAX_CHARACTERS + 1))
    assert "characters, more than" in long
    (many,) = _told("[" + "1," * (yamlfile.MAX_NODES + 1) + "]")
    assert f"more than {yamlfile.MAX_NODES} values" in many


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text("a: 1\n")
    with pytest.raises(BadInput, match=r"there is no such file, did you mean .*/quickstart.yaml\?"):
        read_text(tmp_path / "quickstrat.yaml")
    with pytest.raises(BadInput, match="cannot be read: Is a directory"):
        read_text(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("b: 1\na: é".encode("latin-1"))
    with pytest.raises(BadInput, match=r"latin.yaml:2: is not UTF-8 text \(byte 8\)"):
        read_text(tmp_path / "latin.yaml")
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInput, match="is larger than"):
        read_text(tmp_path / "huge.yaml")
    assert read_text(tmp_path / "quickstart.yaml") == "a: 1\n"


def test_nearest_names_what_was_probably_meant_or_nothing() -> None:
    assert nearest("num_repeat", ["suite_name", "num_repeats"]) == "num_repeats"
    assert nearest("zebra", ["suite_name", "num_repeats"]) is None
