"""The table of request shapes: weights, the requests that are sent, and the verdicts."""

import json

import pytest

from bench.conditions import PAIRS, Ratio, latency_table, ratio_table
from bench.goals import Goal
from bench.open_loop import Latency
from bench.shapes import CALL, MIX, NAMES, OWN, SHAPES, goals, ratio, requests, shape_of, table


def test_the_weights_of_the_mix_add_up_to_a_hundred() -> None:
    assert sum(shape.weight for shape in SHAPES) == 100
    assert len(requests(MIX).split(";")) == len([shape for shape in SHAPES if shape.weight])
    assert len(set(NAMES)) == len(NAMES)


def test_the_mix_has_stricter_goals_than_a_single_shape() -> None:
    found = {name: {"go": [100.0], "aiohttp": [250.0], "gateway": [140.0]} for name in (MIX, "DELETE")}
    assert [goal.verdict for goal in goals(found)] == ["missed", "missed", "met", "met"]
    assert "| DELETE | – | 100 | – | 250 | 140 | 1.40 | met | 0.56 | met |" in table(found)


def test_a_round_in_which_a_peer_failed_does_not_count_in_its_ratio() -> None:
    assert ratio({MIX: {"go": [100.0, None, 50.0], "gateway": [90.0, 90.0, 50.0]}}, MIX, "go") == pytest.approx(0.95)
    assert ratio({MIX: {"go": [None], "gateway": [90.0]}}, MIX, "go") is None


def test_a_gateway_that_failed_in_a_round_has_no_ratio() -> None:
    found = {MIX: {"go": [100.0, 100.0], "gateway": [90.0, None]}}
    assert ratio(found, MIX, "go") is None
    assert "| 100 | – | – | 90 | – | not measured |" in table(found)


def test_shapes_that_only_the_gateway_serves_are_compared_with_other_shapes() -> None:
    assert json.loads(CALL)["method"] == "tools/call"
    assert requests("MCP tools/call").split(" ")[2] == str(len(CALL))
    assert not {shape.name for shape in OWN} & set(NAMES)
    for pair in PAIRS:
        assert {shape_of(pair.one[1]).name, shape_of(pair.other[1]).name} == {pair.one[1], pair.other[1]}


def test_ratios_and_latencies_are_reported_as_met_or_missed() -> None:
    assert "| x, to y | 30 | 20 | 1.2 | 1.50 | missed |" in ratio_table([Ratio(Goal("x, to y", 1.2, 1.5), 30.0, 20.0)])
    late = {"go": [Latency(1, 1.0, 2.0, 4.0)], "gateway": [Latency(1, 1.0, 2.0, 6.0)]}
    text, goal = latency_table(late)
    assert "| gateway | 1.00 | 2.00 | 6.00 |" in text
    assert (goal.found, goal.verdict) == (pytest.approx(1.5), "met")
    assert latency_table({"gateway": late["gateway"]})[1].verdict == "not measured"
