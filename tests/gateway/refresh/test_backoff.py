"""Refusals without a known reason: how often a refusal must repeat before the end user must connect again."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.records.connection import RefreshFailure
from gateway.refresh import backoff
from gateway.refresh.backoff import (
    API_DEGRADED,
    API_ENDED,
    TOKEN_ENDPOINT_ENDED,
    TOKEN_ENDPOINT_ENDED_2XX,
    Limit,
    api_verdict,
    refusals_are_final,
)
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

PAGE = (Path(__file__).parents[3] / "docs" / "connections.md").read_text().partition("## Refusals")[2]
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
FORCED = "/connections/c1?provider_config_key=tracker&force_refresh=true"
SHAPES: dict[str, Any] = {
    "nothing": {"status": 400},
    "a page": {"status": 401, "text": "<html>No</html>", "content_type": "text/html"},
    "another shape": {"status": 400, "text": '{"error": {"code": 17}}', "content_type": "application/json"},
    "an error with status 200": {"status": 200, "text": '{"error": "E1"}', "content_type": "application/json"},
}


@pytest.mark.parametrize("odd", ["\ud83d", "\0", "\r\n"])
@pytest.mark.parametrize("lost_at", [None, NOW])
def test_message_of_a_failure_can_be_stored(odd: str, lost_at: datetime | None) -> None:
    refused = TokenRefused("invalid_grant", f"Bye {odd}!")
    unavailable = TokenUnavailable(f"it returned text/{odd}html")
    failures = [backoff.refresh_failure(fault, None, NOW, lost_at=lost_at) for fault in (refused, unavailable)]
    for failure, shown in zip(failures, ("Bye !", "it returned text/ html"), strict=True):
        assert shown in failure.message
        assert failure.message.isprintable()


@pytest.mark.parametrize("status", TOKEN_ENDPOINT_ENDED)
def test_a_limit_is_reached_by_count_and_duration_together(status: int) -> None:
    limit = TOKEN_ENDPOINT_ENDED[status]
    assert refusals_are_final(status, limit.count, limit.duration)
    assert not refusals_are_final(status, limit.count - 1, limit.duration * 10)
    assert not refusals_are_final(status, limit.count * 10, limit.duration - timedelta(seconds=1))


@pytest.mark.parametrize("status", API_ENDED)
def test_api_refusals_degrade_a_connection_before_they_end_it(status: int) -> None:
    degraded, end = API_DEGRADED[status], API_ENDED[status]
    assert api_verdict(status, degraded.count - 1, end.duration, 2) is None
    assert api_verdict(status, degraded.count, degraded.duration, 1) is False
    assert api_verdict(status, end.count, end.duration, 2) is True


def duration_text(over: timedelta) -> str:
    minutes = over / timedelta(minutes=1)
    return "" if not minutes else f"{minutes:.0f} min" if minutes < 60 else f"{minutes / 60:.0f} h"


@pytest.mark.parametrize(
    ("begins", "state", "limit"),
    [
        *((f"{status} without", "needs_reauth", limit) for status, limit in TOKEN_ENDPOINT_ENDED.items()),
        ("2xx with", "needs_reauth", TOKEN_ENDPOINT_ENDED_2XX),
        ("401, and", "degraded", API_DEGRADED[401]),
        ("the same", "needs_reauth", API_ENDED[401]),
        ("403 |", "degraded", API_DEGRADED[403]),
        ("403 on at least two", "needs_reauth", API_ENDED[403]),
    ],
)
def test_the_table_in_the_docs_has_each_limit(begins: str, state: str, limit: Limit) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {begins}")]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[2:5] == [f"`{state}`", str(limit.count), duration_text(limit.duration)]


def test_a_403_on_only_one_path_never_ends_a_connection() -> None:
    assert api_verdict(403, 10**6, timedelta(days=365), 1) is False
    assert api_verdict(401, 10**6, timedelta(days=365), 1) is True
    assert api_verdict(404, 10**6, timedelta(days=365), 2) is None


def test_outage_resets_the_count_and_never_shortens_the_wait() -> None:
    unknown, outage = TokenUnavailable("no", refused_with=400), TokenUnavailable("down")
    failure: RefreshFailure | None = None
    for _ in range(4):
        failure = backoff.refresh_failure(unknown, failure, NOW, since=NOW - timedelta(days=1))
    assert failure is not None
    assert (failure.attempts, failure.final) == (4, False)
    between = backoff.refresh_failure(outage, failure, NOW, since=NOW - timedelta(days=1))
    assert (between.attempts, between.final) == (1, False)
    after = backoff.refresh_failure(unknown, between, NOW, since=NOW - timedelta(days=1))
    assert (after.attempts, after.final) == (1, False)
    assert failure.retry_at is not None
    assert between.retry_at is not None
    assert after.retry_at is not None
    assert failure.retry_at <= between.retry_at <= after.retry_at


@pytest.mark.parametrize("shape", SHAPES)
async def test_repeated_refusal_without_a_reason_becomes_needs_reauth(
    shape: str, running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    tracker.response = web.Response(**SHAPES[shape])

    async def state() -> tuple[str, str]:
        await running.json("GET", FORCED)
        row = (await running.json("GET", "/connections"))["connections"][0]
        return row["state"], row["errors"][0]["log_id"].partition(" ")[0]

    for _ in range(8):
        assert await state() == ("degraded", "token_endpoint_refused"), "many refusals within seconds are one outage"
    advance_clock(301)
    assert await state() == ("needs_reauth", "token_endpoint_refused")
    advance_clock(3600)
    body = await running.json("GET", FORCED, expect=424)
    assert body["error"]["payload"]["reason"] == "token_endpoint_refused"
    path = "/connections/c1?provider_config_key=tracker&include=history"
    found = (await running.json("GET", path))["error"]["payload"]["connection"]
    assert found["diagnosis"]["causes"][0]["cause"] == "refused_without_reason"
    assert found["diagnosis"]["action"]["do"] == "reconnect"
    assert [change["state"] for change in found["history"]] == ["active", "degraded", "needs_reauth"]
    tracker.response = None
    await running.json("GET", FORCED, expect=200)
    assert (await running.json("GET", "/connections"))["connections"][0]["state"] == "active"


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_outage_never_becomes_needs_reauth(
    status: int, running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    tracker.response = web.json_response({"error": "invalid_grant"}, status=status)
    for _ in range(8):
        advance_clock(3600)
        await running.json("GET", FORCED)
    row = (await running.json("GET", "/connections"))["connections"][0]
    assert row["state"] == "degraded"


def test_refusal_without_a_reason_after_a_lost_reply_is_rotation_lost() -> None:
    unknown = TokenUnavailable("no", refused_with=400)
    before = RefreshFailure(backoff.REFUSED, "no", False, NOW, 4, NOW)
    failure = backoff.refresh_failure(
        unknown, before, NOW, lost_at=NOW - timedelta(hours=1), since=NOW - timedelta(hours=1)
    )
    assert (failure.code, failure.final, failure.retry_at) == (backoff.ROTATION_LOST, True, None)
