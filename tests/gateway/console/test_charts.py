"""Charts of the console: bars, areas and parts scale to their largest value, and nothing divides by zero."""

from typing import Any

from gateway.console.charts import HEIGHT, WIDTH, Bar, Part, areas, bars, parts


def test_bars_scale_to_the_largest_and_include_the_failures() -> None:
    drawn: Any = bars([Bar("00:00", 10, 5), Bar("00:15", 5, 0)])
    first, second = drawn["bars"]
    assert (first["high"], first["bad"], first["text"]) == (HEIGHT, HEIGHT / 2, "00:00: 10, 5 failed")
    assert (second["high"], second["bad"], second["x"]) == (HEIGHT / 2, 0.0, WIDTH / 2)
    assert drawn["most"] == 10


def test_a_chart_without_calls_is_flat() -> None:
    flat: Any = bars([Bar("00:00", 0, 0)])
    assert (flat["bars"][0]["high"], flat["most"]) == (0.0, 0)
    assert bars([])["bars"] == []
    empty: Any = areas({"gateway": []})
    assert empty["areas"] == [{"name": "gateway", "path": ""}]


def test_areas_are_stacked() -> None:
    drawn: Any = areas({"gateway": [1.0], "provider": [3.0]})
    assert drawn["most"] == 4.0
    lower, upper = (area["path"] for area in drawn["areas"])
    assert lower == f"M360,{HEIGHT * 0.75:.1f} 360,{HEIGHT:.1f}Z"
    assert upper == f"M360,0.0 360,{HEIGHT * 0.75:.1f}Z"


def test_parts_fill_the_width_in_their_order() -> None:
    drawn: Any = parts([Part("token", 20.0), Part("provider", 60.0)])
    assert [(part["x"], part["width"]) for part in drawn["parts"]] == [(0.0, WIDTH / 4), (WIDTH / 4, WIDTH * 3 / 4)]
    nothing: Any = parts([Part("token", 0.0)])
    assert nothing["parts"][0]["width"] == 0.0
