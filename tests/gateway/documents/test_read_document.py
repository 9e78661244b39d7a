"""YAML and JSON as values that know their line; repeated keys, merges and aliases."""

import pytest

from gateway.documents.nodes import UnreadableText
from gateway.documents.read_document import Dialect, decode_utf8, dotted, read_document

ENTRY = Dialect(max_values=50, yes_is_true=False, merges=False)
CONFIG = Dialect(max_values=50, yes_is_true=True, merges=True)


def test_each_value_knows_its_line() -> None:
    found = read_document("a: 1\nb:\n  - x\n  - c: true\n", ENTRY)
    assert found.tree == {"a": 1, "b": ["x", {"c": True}]}
    assert (found.line(("b",)), found.line(("b", "0")), found.line(("b", "1", "c"))) == (2, 3, 4)
    assert found.line(("b", "1", "missing", "deeper")) == 4  # the line of the nearest enclosing value


def test_yes_is_text_in_one_dialect_and_a_truth_value_in_the_other() -> None:
    text = "a: yes\nb: 'no'\nc: Off\n"
    assert read_document(text, ENTRY).tree == {"a": "yes", "b": "no", "c": "Off"}
    assert read_document(text, CONFIG).tree == {"a": True, "b": "no", "c": False}


def test_a_key_given_twice_is_a_fault_and_the_first_counts() -> None:
    found = read_document("a: 1\nb: 2\na: 3\n", ENTRY)
    assert found.tree == {"a": 1, "b": 2}
    (fault,) = found.faults
    assert (fault.line, fault.message) == (3, "'a' is given twice, first in line 1; keep one")


def test_own_keys_win_over_merged_ones() -> None:
    text = "base: &b {x: 1, y: 2}\none:\n  <<: *b\n  x: 9\n"
    assert read_document(text, CONFIG).tree["one"] == {"x": 9, "y": 2}
    assert read_document(text, ENTRY).tree["one"] == {"<<": {"x": 1, "y": 2}, "x": 9}
    wrong = read_document("one:\n  <<: text\n", CONFIG)
    assert [fault.message for fault in wrong.faults] == [
        "'<<' must be an alias of a mapping, or a list of such aliases"
    ]


def test_aliases_count_each_time_they_are_used() -> None:
    laughs = "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: [*a,*a,*a,*a,*a,*a]\n"
    with pytest.raises(UnreadableText, match="more than 50 values once aliases are filled in"):
        read_document(laughs, ENTRY)


def test_json_is_read_too_and_half_a_surrogate_pair_is_a_fault() -> None:
    found = read_document('{"a": "\\ud800", "b": [1.5, null]}', ENTRY)
    assert found.tree == {"a": None, "b": [1.5, None]}
    assert "half a surrogate pair" in found.faults[0].message


def test_an_empty_text_has_no_tree() -> None:
    assert read_document("# only a comment\n", ENTRY).tree is None


def test_a_file_is_utf_8_with_or_without_a_mark() -> None:
    assert decode_utf8(b"\xef\xbb\xbfa: 1") == "a: 1"
    with pytest.raises(UnreadableText) as refused:
        decode_utf8(b"a: 1\nb: \xff\n")
    assert refused.value.line == 2


def test_a_place_is_shown_with_dots_and_brackets() -> None:
    assert dotted(("environments", "dev", "secret_keys", "0")) == "environments.dev.secret_keys[0]"
    assert dotted(("a", "b c")) == "a.'b c'"
    assert dotted(("0",)) == "0"
