"""The end of a JSON value is where the standard library finds it, and invalid JSON is refused in the same cases."""

import json
import random
import tracemalloc
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.json_scan import MAX_DEPTH, RUN_LENGTH, NotJson, end_of_value

PIECES = [
    *'[]{},:" \n\t\x0b',
    *('"a"', '""', "1", "-0", "01", "1.", "1e5", "1E+2", "-", "true", "nul", "null", '"\\u00zz"', '"\\u00e9"', '"\\n"'),
    *('"\n"', "NaN", "Infinity", "0.5", '"x":', ".5", '{"a":1}', "[]", "{}", '"é"', "--1"),
]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


def end_by_standard_library(text: str) -> int | None:
    """Return the end according to the standard library, without NaN and Infinity, which are not JSON."""

    def refuse(_name: str) -> NoReturn:
        raise ValueError

    try:
        return json.JSONDecoder(parse_constant=refuse).raw_decode(text)[1]
    except ValueError:
        return None


def end_by_scanner(text: str) -> int | None:
    try:
        return end_of_value(text, 0)
    except NotJson:
        return None


@given(JSON, st.sampled_from([None, 2]), st.text(" \n]},x", max_size=3))
def test_valid_json_is_read_to_its_end(value: Any, indent: int | None, behind: str) -> None:
    text = json.dumps(value, indent=indent)
    assert end_by_scanner(text) == len(text)
    assert end_by_scanner(text + behind) == end_by_standard_library(text + behind)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12), st.booleans())
def test_scanner_and_standard_library_agree_on_any_text(pieces: list[str], bracketed: bool) -> None:
    text = "".join(pieces)
    text = f"[{text}]" if bracketed else text
    assert end_by_scanner(text) == end_by_standard_library(text)


def test_scanner_and_standard_library_agree_on_very_many_values() -> None:
    dice = random.Random(8259)
    for _ in range(20_000):
        text = "[" + "".join(dice.choice(PIECES) for _ in range(dice.randint(1, 9))) + "]"
        assert end_by_scanner(text) == end_by_standard_library(text), text


@pytest.mark.parametrize("count", [RUN_LENGTH - 1, RUN_LENGTH, RUN_LENGTH + 1, 3 * RUN_LENGTH + 7])
def test_array_and_object_may_have_any_number_of_scalars(count: int) -> None:
    for text in (
        "[" + "1," * count + "1]",
        "{" + '"a":1,' * count + '"a":1}',
        "{" + '"a":1,' * count + '"a":{},' + '"b":2,' * count + '"b":[]}',
        "[" + "{}," * count + "1," * count + "[]]",
    ):
        assert end_by_scanner(text) == len(text)
        assert end_by_scanner(text[:-1]) is None
        assert end_by_scanner(text[:-2] + ",]") is None


def test_nesting_is_limited() -> None:
    assert end_by_scanner("[" * MAX_DEPTH + "]" * MAX_DEPTH) == 2 * MAX_DEPTH
    assert end_by_scanner("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)) is None


def test_scan_of_many_objects_takes_no_memory() -> None:
    hostile = "[" + "[]," * 50_000 + "[]]"
    tracemalloc.start()
    try:
        assert end_by_scanner(hostile) == len(hostile)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
