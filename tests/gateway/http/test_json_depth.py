"""Values of any depth are measured, cut and read without a deep stack."""

import json
from typing import Any

import pytest

from gateway.http.json_depth import MAX_STORED_LEVELS, nests_deeper, parse_stored_json, prune, prune_text


def nested(levels: int, value: Any = 1) -> Any:
    for level in range(levels):
        value = {"a": value, "b": ']"'} if level % 2 else [value, "["]
    return value


@pytest.mark.parametrize("levels", [0, 1, 7, 100_000])
@pytest.mark.parametrize("innermost", [1, {}, []])
def test_depth_is_the_number_of_arrays_and_objects(levels: int, innermost: Any) -> None:
    value = nested(levels, innermost)
    levels += innermost != 1
    assert not nests_deeper(value, levels)
    assert levels == 0 or nests_deeper(value, levels - 1)


@pytest.mark.parametrize("max_levels", [1, 4, 5])
def test_pruning_a_text_and_a_value_gives_the_same_result(max_levels: int) -> None:
    value = {"deep": nested(9), "flat": [1, {"x": "}"}], "text": '{"['}
    cut = prune(value, max_levels)
    assert json.loads(prune_text(json.dumps(value), max_levels)) == cut
    assert (nests_deeper(cut, max_levels), nests_deeper(cut, max_levels - 1)) == (False, True)
    assert (prune(value, 10), prune_text("[1]", 1)) == (value, "[1]")


def test_stored_text_of_any_depth_is_read() -> None:
    text = '{"a":' * 50_000 + "1" + "}" * 50_000
    value = parse_stored_json(f'{{"deep":{text},"b":[1]}}')
    assert value["b"] == [1]
    assert not nests_deeper(value, MAX_STORED_LEVELS)
    assert nests_deeper(value, MAX_STORED_LEVELS - 1)
    many = [{"n": n} for n in range(1000)]
    assert parse_stored_json(json.dumps(many)) == many
    with pytest.raises(TypeError):
        parse_stored_json(5)
