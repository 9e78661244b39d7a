"""The timing chart of a call."""

from gateway.cli.try_.try_output import WIDTH, bar, timing_chart, timing_parts


def test_chart_shows_server_timing_and_the_rest_as_network() -> None:
    result = timing_parts(["gateway;dur=0.50, token;dur=0, upstream;dur=8.00"], 10)
    assert result == {"gateway": 0.5, "token": 0, "upstream": 8, "transfer": 1.5, "total": 10}


def test_providers_server_timing_is_not_used() -> None:
    result = timing_parts(['cache;desc="hit, or so";dur=2, upstream;dur=99', "gateway;dur=1, upstream;dur=3"], 5)
    assert result == {"gateway": 1, "upstream": 3, "transfer": 1, "total": 5}


def test_without_server_timing_all_time_is_network() -> None:
    assert timing_parts([], 5) == {"transfer": 5, "total": 5}
    assert timing_parts(["gateway;dur=x, token;dur=1.2.3"], 5) == {"transfer": 5, "total": 5}


def test_each_bar_begins_where_the_one_before_ended() -> None:
    lines = timing_chart({"gateway": 10, "upstream": 30, "transfer": 40, "total": 80})
    bars = [line[22 - 1 :].rstrip() for line in lines[:-1]]
    ends = [len(line.rstrip()) for line in lines[:-1]]
    starts = [line.index("█") for line in lines[:-1]]
    assert [item.count("█") for item in bars] == [WIDTH // 8, WIDTH * 3 // 8, WIDTH // 2]
    assert starts[1:] == ends[:-1]
    assert lines[-1].split() == ["total", "80.0", "ms"]


def test_every_positive_duration_has_a_bar_and_zero_has_none() -> None:
    assert bar(0, 0.00001) == "▏"
    assert bar(0.5, 0).strip() == ""
    assert len(bar(1, 0.00001)) <= WIDTH
