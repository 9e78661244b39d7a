"""YAML and JSON of configurations: scalars, anchors, merges, lines."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.document import ConfigDocument, read_text


def read(text: str) -> ConfigDocument:
    return read_text(text, "gateway.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3003", 3003),
        ("-1", -1),
        ("0", 0),
        ("0123", "0123"),
        ("12:30", "12:30"),
        ("2026-11-20", "2026-11-20"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("true", True),
        ("Yes", True),
        ("OFF", False),
        ("~", None),
        ("", None),
        ("'true'", "true"),
        ('"3"', "3"),
        ("!!str 3", "3"),
        ("! 3", "3"),
        ("!!int 3", 3),
        ("read:jira-work", "read:jira-work"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_scalar_has_the_expected_type(text: str, value: Any) -> None:
    found = read(f"a: {text}").tree["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_text_as_written() -> None:
    assert read("no: {0123: {}, 1e3: {}, 'a b': {}}").tree == {"no": {"0123": {}, "1e3": {}, "a b": {}}}


def test_own_keys_win_over_merged_ones_and_earlier_merges_over_later() -> None:
    text = """\
x-first: &first {a: 1, b: 1}
x-second: &second {<<: *first, b: 2, c: 2}
dev: {<<: [*first, *second], a: 0}
"""
    assert read(text).tree["dev"] == {"a": 0, "b": 1, "c": 2}


def test_a_merge_key_is_not_a_repeated_key() -> None:
    assert read("a: &a {x: 1}\nb: {<<: *a, x: 2}").findings == ()


@pytest.mark.parametrize("text", ["a: {<<: 1}", "a: {<<: [1]}", "? [a]\n: 1", "'': 1", "a: {<<: {}, <<: {}}"])
def test_unusable_keys_are_faults(text: str) -> None:
    assert len(read(text).findings) == 1


def test_every_place_has_its_line_and_a_missing_one_the_line_of_its_parent() -> None:
    document = read("a:\n  b:\n    - x\n    - y: 1\n\n  # comment\n  c: >\n    long\n")
    assert document.file_and_line(("a", "b", "1", "y")) == "gateway.yaml:4"
    assert document.file_and_line(("a", "b", "0")) == "gateway.yaml:3"
    assert document.file_and_line(("a", "c")) == "gateway.yaml:7"
    assert document.file_and_line(("a", "d", "e")) == "gateway.yaml:1"
    assert document.file_and_line(("z",)) == "gateway.yaml:1"


def test_aliased_values_have_the_line_where_they_are_written() -> None:
    document = read("x-base: &base\n  host: a\nserver:\n  <<: *base\nlive: *base\n")
    assert document.file_and_line(("server", "host")) == "gateway.yaml:2"
    assert document.file_and_line(("live",)) == "gateway.yaml:5"


def test_json_may_have_tabs_and_surrogate_pairs() -> None:
    document = read('{\n\t"server":\t{"display": "\\ud83d\\ude00",\n\t\t"n": [1, -2.5e1, null, true]}\n}\n')
    assert document.tree == {"server": {"display": "😀", "n": [1, -25.0, None, True]}}
    assert document.file_and_line(("server", "n", "0")) == "gateway.yaml:3"


def test_repeated_key_in_json_is_a_fault() -> None:
    [finding] = read('{"a": 1,\n "a": 2}').findings
    assert finding.line == 2
    assert "first in line 1" in finding.message


def test_a_merge_key_is_an_ordinary_key_in_json() -> None:
    assert read('{"<<": {"a": 1}}').tree == {"<<": {"a": 1}}


def test_a_flow_mapping_that_is_not_json_is_yaml() -> None:
    assert read("{a: 1, b: [x, y,],}  # yaml").tree == {"a": 1, "b": ["x", "y"]}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4), st.sampled_from([None, 2, "\t"]), st.booleans())
def test_any_json_is_read_as_json(tree: dict[str, Any], indent: Any, ascii_only: bool) -> None:
    assert read(json.dumps(tree, indent=indent, ensure_ascii=ascii_only)).tree == tree
