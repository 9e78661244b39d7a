"""The table of shapes: its weights, what is sent, and the verdicts."""

from bench.shapes import MIX, NAMES, SHAPES, goals, ratio, requests, table


def test_the_weights_of_the_mix_add_up_to_a_hundred() -> None:
    assert sum(shape.weight for shape in SHAPES) == 100
    assert len(requests(MIX).split(";")) == len([shape for shape in SHAPES if shape.weight])
    assert len(set(NAMES)) == len(NAMES)


def test_the_mix_has_stricter_goals_than_a_single_shape() -> None:
    found = {name: {"go": [100.0], "aiohttp": [250.0], "gateway": [140.0]} for name in (MIX, "DELETE")}
    assert [goal.verdict for goal in goals(found)] == ["missed", "missed", "met", "met"]
    assert "| DELETE | – | 100 | – | 250 | 140 | 1.40 | met | 0.56 | met |" in table(found)


def test_a_contender_that_failed_in_a_round_has_no_ratio() -> None:
    assert ratio({MIX: {"go": [100.0], "gateway": [90.0, 90.0]}}, MIX, "go") is None
