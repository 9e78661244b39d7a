"""Killed at every step of a refresh, a gateway loses a token nowhere but where nobody could know it, and says so."""

from pathlib import Path

import pytest

from tests.selftest.crash import ALONE, AT_PROVIDER, PARENT, ROTATING, crash

# What was not asked can be asked, and the parent journals the reply to what was. How many requests the provider gets in all.
KEPT = {
    "before the claim": 1,
    "after the intent": 1,
    AT_PROVIDER: 2,
    ROTATING: 1,
    "answer in memory": 1,
    "before the commit": 1,
    "inside the commit": 1,
    "after the commit": 1,
}
LOST = (PARENT, ALONE)


@pytest.mark.parametrize("point", KEPT)
async def test_a_worker_killed_there_loses_nothing(point: str, tmp_path: Path) -> None:
    seen = await crash(point, tmp_path)
    assert seen.killed
    assert (seen.status, seen.state, seen.requests, seen.sound) == (200, "active", KEPT[point], True), seen


@pytest.mark.parametrize("point", ["after the intent", ROTATING, "before the commit"])
async def test_on_postgresql_neither_where_a_node_of_the_same_machine_takes_it_up(
    point: str, tmp_path: Path, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    seen = await crash(point, tmp_path, url=empty_database)
    assert seen.killed
    assert (seen.status, seen.state, seen.requests) == (200, "active", 1), seen


@pytest.mark.parametrize("point", LOST)
async def test_a_reply_that_no_parent_is_left_to_journal_is_reported_as_a_lost_rotation_and_asked_for_once(
    point: str, tmp_path: Path
) -> None:
    seen = await crash(point, tmp_path)
    assert seen.killed
    assert (seen.status, seen.state, seen.requests, seen.sound) == (424, "needs_reauth", 2, True), seen
    between = ("degraded: token_endpoint_unavailable",) if point == PARENT else ()  # as its worker saw it
    assert seen.entries == ("active: authorized", *between, "needs_reauth: rotation_lost")
    assert not seen.silent


@pytest.mark.parametrize("point", LOST)
async def test_where_the_provider_has_a_grace_time_not_even_that_is_lost(point: str, tmp_path: Path) -> None:
    seen = await crash(point, tmp_path, forgiving=True)
    assert seen.killed
    assert (seen.status, seen.state, seen.requests) == (200, "active", 2), seen
