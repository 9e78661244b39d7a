"""If a gateway is killed during a refresh, a token is lost only if its reply was stored nowhere. The loss is reported."""

import random
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.selftest.crash import (
    AFTER_ROTATION,
    AT_PROVIDER,
    PARENT_ALONE,
    PARENT_AND_WORKER,
    Outcome,
    crash,
    crash_at_each,
)
from tests.selftest.refreshes import BOTH, PARENT, WORKER, RefreshTally, kills_during_refreshes

# The number of token requests that the provider receives, by the point of the kill. If a request was sent, the parent
# journals its reply.
TOKEN_REQUESTS = {
    "before the claim": 1,
    "after the intent": 1,
    AT_PROVIDER: 2,
    AFTER_ROTATION: 1,
    "response in memory": 1,
    "before the commit": 1,
    "inside the commit": 1,
    "after the commit": 1,
}
LOSING_POINTS = (PARENT_ALONE, PARENT_AND_WORKER)


async def test_a_worker_killed_at_any_step_loses_no_token(tmp_path: Path) -> None:
    outcomes = await crash_at_each(list(TOKEN_REQUESTS), tmp_path)
    assert all(outcome.killed and outcome.sound for outcome in outcomes.values()), outcomes
    assert {point: (200, "active", requests) for point, requests in TOKEN_REQUESTS.items()} == _results(outcomes), (
        outcomes
    )


async def test_on_postgresql_a_node_of_the_same_machine_recovers_the_token_of_a_killed_worker(
    tmp_path: Path, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    points = ["after the intent", AFTER_ROTATION, "before the commit"]
    outcomes = await crash_at_each(points, tmp_path, url=empty_database)
    assert all(outcome.killed for outcome in outcomes.values()), outcomes
    assert dict.fromkeys(points, (200, "active", 1)) == _results(outcomes), outcomes


def _results(outcomes: Mapping[str, Outcome]) -> dict[str, tuple[int, str, int]]:
    return {point: (outcome.status, outcome.state, outcome.requests) for point, outcome in outcomes.items()}


@pytest.mark.parametrize("point", LOSING_POINTS)
async def test_a_reply_that_is_lost_with_its_parent_is_reported_as_rotation_lost(point: str, tmp_path: Path) -> None:
    outcome = await crash(point, tmp_path)
    assert outcome.killed
    assert (outcome.status, outcome.state, outcome.requests, outcome.sound) == (424, "needs_reauth", 2, True), outcome
    # recorded by the worker of the killed parent
    between = ("degraded: token_endpoint_unavailable",) if point == PARENT_ALONE else ()
    assert outcome.entries == ("active: authorized", *between, "needs_reauth: rotation_lost")
    assert not outcome.silent


@pytest.mark.parametrize("point", LOSING_POINTS)
async def test_a_reply_that_is_lost_with_its_parent_costs_no_token_if_the_provider_has_a_grace_period(
    point: str, tmp_path: Path
) -> None:
    outcome = await crash(point, tmp_path, forgiving=True)
    assert outcome.killed
    assert (outcome.status, outcome.state, outcome.requests) == (200, "active", 2), outcome


@pytest.mark.timeout(300)  # several processes are started one after the other
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_kills_during_many_refreshes_lose_no_token_unreported_and_killed_workers_lose_none(
    store: str, tmp_path: Path, empty_database: str
) -> None:
    url = empty_database if store == "postgresql" else "sqlite:///gateway.db"
    victims = iter((WORKER, PARENT, BOTH))
    tally = await kills_during_refreshes(tmp_path, 3, random.Random(7), url=url, victims=lambda _: next(victims))
    assert (tally.worker.kills, tally.parent.kills, tally.both.kills) == (1, 1, 1)
    assert tally.fine, tally
    assert RefreshTally.from_json(asdict(tally)) == tally


def test_losses_are_counted_by_killed_process_and_by_whether_they_were_reported() -> None:
    tally = RefreshTally()
    tally.count_connection(PARENT, "c1", 424, "rotation_lost")
    tally.count_connection(PARENT, "c2", 200, "authorized")
    assert (tally.parent.reported, tally.parent.silent, tally.fine) == (1, 0, True)
    tally.count_connection(WORKER, "c3", 424, "rotation_lost")
    tally.count_connection(BOTH, "c4", 424, "invalid_grant")
    tally.count_connection(BOTH, "c5", 503, "token_endpoint_unavailable")
    assert (tally.worker.reported, tally.both.silent, len(tally.unexpected), tally.fine) == (1, 2, 3, False)
