"""The benchmark starts both Python proxies, sends load to them, and writes its figures."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench.goals import Goal
from bench.load import Load
from bench.plot import as_svg
from bench.report import as_markdown
from bench.result import Result, Row, ratio
from bench.streams import Idle, Stream

ROOT = Path(__file__).parents[2]
SHORT = [
    "--quick",
    "--rounds",
    "1",
    "--seconds",
    "0.3",
    "--size",
    "4MiB",
    "--events",
    "3",
    "--idle",
    "20",
    "--built-in",
]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_short_run_measures_the_gateway_and_aiohttp(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", *SHORT, "--only", "aiohttp", "--only", "gateway", "--out", str(tmp_path)]
    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert [row["name"] for row in body["rows"]] == ["aiohttp", "gateway"]
    for row in body["rows"]:
        assert row["skipped"] == []
        assert all(row["loads"][connections][0]["requests"] > 0 for connections in ("32", "1"))
        assert row["down"][0]["mib_per_second"] > 0
        assert row["up"][0]["mib_per_second"] > 0
        assert len(row["event_delays_ms"]) == 3
        assert row["idle"]["connections"] == 20
        assert 0 < row["worker_mib"] <= row["idle_mib"]
    gateway = body["rows"][1]
    assert gateway["worker_mib"] < gateway["idle_mib"], "the parent process is not the worker"
    page = (tmp_path / "results.md").read_text()
    assert "aiohttp + ClientSession" in page
    assert str(ROOT) not in page
    ET.parse(tmp_path / "results.svg")


def _row(name: str, *cpu_us: float) -> Row:
    loads = [Load(1000, 1.0, 0, 500.0, 2000.0, cpu, number) for number, cpu in enumerate(cpu_us, 1)]
    row = Row(name, name, "", "1.0", loads={32: loads, 1: loads})
    row.down = [Stream(900.0, 1.0, 40.0, 2.5)]
    row.idle = Idle(100, 40.0, 50.0)
    return row


def test_a_ratio_is_computed_within_each_round() -> None:
    slow_minute = _row("one", 10.0, 100.0, 10.0)
    assert ratio(slow_minute, _row("other", 5.0, 50.0, 5.0)) == 2.0
    assert ratio(slow_minute, None) is None
    failed_in_the_first = _row("other", 1.0, 50.0, 5.0)
    failed_in_the_first.loads[32] = failed_in_the_first.loads[32][1:]
    assert ratio(slow_minute, failed_in_the_first) == 2.0


def test_a_goal_that_could_not_be_measured_is_neither_met_nor_missed() -> None:
    assert Goal("", 1.0, None).verdict == "not measured"
    assert Goal("", 1.0, 1.0).verdict == "met"
    assert Goal("", 1.0, 0.9, at_least=True).verdict == "missed"


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    rows = [_row("nginx", 20.0), _row("gateway", 80.0), Row("node", "Node", "", "20")]
    options = {"rounds": 1, "seconds": 1.0}
    result = Result(
        "a machine", "2026-11-20", "wrk", options, rows, variants=[_row("ten", 80.0)], missing={"Go": "is not"}
    )
    page = as_markdown(result)
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    assert "Go: is not" in page
    assert as_svg(result).count("<rect") == 2
