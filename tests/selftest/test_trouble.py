"""No acknowledged write is lost by kills during writes, cut networks, stalled processes, full disks and restarts."""

import random
from pathlib import Path

import pytest

from tests.fakes.postgres import PostgresServer
from tests.selftest.cuts import CUTS, INSIDE, refresh_and_cut
from tests.selftest.full_disk import full_disk
from tests.selftest.restart import postgres_restart
from tests.selftest.stall import stalled_holder
from tests.selftest.writes import Writer, kills_during_writes


@pytest.mark.timeout(300)  # three processes are started one after the other
async def test_no_acknowledged_write_is_lost_to_a_kill(tmp_path: Path) -> None:
    tally = await kills_during_writes(tmp_path, 2, random.Random(5))
    assert (tally.kills, tally.lost, tally.unsound, tally.unreadable) == (2, [], 0, 0)
    assert tally.acknowledged > 0


def test_missing_write_is_detected() -> None:
    writer = Writer("w", {"a": 1, "b": 2, "c": None, "d": 1}, in_flight=("d", None))
    assert writer.missing({"a": 1, "b": 1, "c": 3}) == ["b", "c"]
    assert writer.missing({"a": 1, "b": 2, "d": 1}) == []


@pytest.mark.parametrize(("place", "forgiving"), [*((place, False) for place in CUTS), (INSIDE, True)])
async def test_a_cut_network_loses_no_token_without_a_report(tmp_path: Path, place: str, forgiving: bool) -> None:
    result = await refresh_and_cut(place, tmp_path, forgiving=forgiving)
    assert result.fine, result


@pytest.mark.parametrize("parent", [False, True])
async def test_a_stalled_lease_holder_overwrites_nothing_when_it_wakes(tmp_path: Path, parent: bool) -> None:
    result = await stalled_holder(tmp_path, parent=parent)
    assert result.fine, result


async def test_a_full_disk_fails_writes_but_no_calls_and_only_while_it_is_full(tmp_path: Path) -> None:
    result = await full_disk(tmp_path)
    assert result.fine, result


async def test_a_restart_of_postgresql_under_load_fails_at_most_one_call_in_a_thousand(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    result = await postgres_restart(tmp_path, postgres_server, seconds=1.0)
    assert result.fine, result
