"""JSON that pydantic-core parses and writes has the same values as with the standard library."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.compact_json import compact_json, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=30,
)


@given(VALUES)
def test_values_are_the_same_as_with_the_standard_library(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=1)):
        parsed = parse_json(text.encode())
        assert repr(parsed) == repr(value)  # 1 and 1.0 and True are equal, but not the same
    assert repr(json.loads(compact_json(value))) == repr(value)


@given(st.lists(st.integers() | st.text() | st.none(), max_size=9))
def test_text_has_no_spaces_and_no_needless_escapes(value: Any) -> None:
    assert compact_json(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@given(st.binary(max_size=40) | st.text('{}[]":,01e.-+tfnu\\ \n', max_size=12).map(str.encode))
@settings(max_examples=200)
def test_invalid_json_is_refused_as_by_the_standard_library(body: bytes) -> None:
    try:
        wanted: Any = json.loads(body)
    except ValueError:
        with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
            parse_json(body)
    else:
        assert repr(parse_json(body)) == repr(wanted)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'["\\ud800"]', ["?"]),
        (b'{"\\uDFFF":1}', {"?": 1}),
        (b'["\\ud83d\\ude00"]', ["\N{GRINNING FACE}"]),
        (b'{"a":1,"a":2}', {"a": 2}),
        ('\ufeff{"a":1}'.encode(), {"a": 1}),
        ('{"é":1}'.encode("utf-16"), {"é": 1}),
        (b"[" * 400 + b"]" * 400, None),
    ],
)
def test_rare_json_is_parsed_by_the_standard_library(body: bytes, value: Any) -> None:
    assert parse_json(body) == (json.loads(body) if value is None else value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        compact_json({"a": [number]})


def test_rare_values_are_written_by_the_standard_library() -> None:
    assert compact_json(["Infinity", "NaN", 1]) == b'["Infinity","NaN",1]'
    assert compact_json({"a\ud800": "\udfff"}) == b'{"a?":"?"}'
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    assert json.loads(compact_json(deep)) == deep
