"""A credential that the provider's API rejects repeatedly: `degraded`, then `needs_reauth`; a 2xx makes it active
again."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.records.event import Event
from gateway.refresh.backoff import API_DEGRADED, API_ENDED
from gateway.store.deliveries import EventFilter
from tests.fakes.gateways import RunningGateway, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

NAMES = {"integration": "keyed"}
HISTORY = "/connections/c1?provider_config_key=keyed&include=history"


@pytest.fixture
async def keyed_gateway(running: RunningGateway, tracker: Tracker) -> RunningGateway:
    """A gateway with connection `c1` of integration `keyed`, whose API key the tracker accepts."""
    for name, mode, header in (
        ("keyed", "API_KEY", "Bearer ${apiKey}"),
        ("open", "NONE", "none"),
    ):
        entry = {
            "display_name": name.title(),
            "categories": ["other"],
            "docs": "https://docs.example.com",
            "auth_mode": mode,
            "proxy": {"base_url": tracker.url, "headers": {"authorization": header}},
        }
        write_entry(running.folder, name, entry)
        running.document["environments"]["dev"]["integrations"][name] = {"provider": name}
    # not at the provider: while an event is sent there, no idle connection could be left for the fast path
    running.document["environments"]["dev"]["webhook_url"] = "http://127.0.0.1:9/events"
    await running.restart()
    tracker.refusal = 401
    await connect(running, tracker)
    return running


async def connect(running: RunningGateway, tracker: Tracker) -> None:
    key = tracker.grant()["access_token"]
    body = {"provider_config_key": "keyed", "connection_id": "c1", "credentials": {"type": "API_KEY", "apiKey": key}}
    await running.json("POST", "/connections", json=body, expect=201)


def withdraw_all_tokens(tracker: Tracker) -> None:
    for grant in tracker.grants:
        grant.access_tokens = set()


async def call(running: RunningGateway, times: int = 1, path: str = "/x", **options: Any) -> set[int]:
    """Make `times` calls one after the other, wait until their effects are stored, and return the statuses."""
    statuses = set()
    for _ in range(times):
        async with running.call_proxy("c1", path, **{**NAMES, **options}) as response:
            await response.read()
            statuses.add(response.status)
        await wait_until_stored(running)
    return statuses


async def wait_until_stored(running: RunningGateway) -> None:
    live = running.runtime.live
    async with asyncio.timeout(PATIENCE_S):
        await live.early_refreshes.wait_until_idle()
        await asyncio.gather(*live.rejections.write_tasks(), return_exceptions=True)


async def state(running: RunningGateway) -> str:
    rows = (await running.json("GET", "/connections"))["connections"]
    shown: str = rows[0]["state"]
    return shown


async def events(running: RunningGateway) -> list[str]:
    written = await running.runtime.store.event_log.list(EventFilter(environment="dev"))
    return [item.event for item in reversed(written)]


async def test_connection_with_a_rejected_key_becomes_degraded_then_needs_reauth(
    keyed_gateway: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    assert await call(keyed_gateway) == {200}
    withdraw_all_tokens(tracker)
    with capture_logs() as logs:
        assert await call(keyed_gateway, API_DEGRADED[401].count - 1) == {401}
        assert await state(keyed_gateway) == "active"
        assert await call(keyed_gateway) == {401}
        assert await state(keyed_gateway) == "degraded"
        assert await call(keyed_gateway, API_ENDED[401].count) == {401}
        assert await state(keyed_gateway) == "degraded", "many refusals within seconds may be an outage"
        advance_clock(API_ENDED[401].duration.total_seconds())
        assert await call(keyed_gateway) == {401}
        assert await state(keyed_gateway) == "needs_reauth"
        assert await call(keyed_gateway, 5) == {401}, "later calls are still sent to the provider"
    assert [line["connection_state"] for line in logs if line["event"] == "credential_rejected"] == [
        "degraded",
        "needs_reauth",
    ]
    shown = await keyed_gateway.json("GET", HISTORY, expect=200)
    assert [(change["state"], change["reason"]) for change in shown["history"]] == [
        ("active", "authorized"),
        ("degraded", "rejected_by_api"),
        ("needs_reauth", "rejected_by_api"),
    ]
    assert shown["diagnosis"]["causes"][0]["cause"] == "credential_rejected"
    assert "returned 401 for" in shown["diagnosis"]["causes"][0]["why"]
    assert shown["diagnosis"]["action"]["do"] == "reconnect"
    assert await events(keyed_gateway) == [Event.CREATED, Event.DEGRADED, Event.NEEDS_REAUTH]


async def test_one_2xx_makes_the_connection_active_again_and_restarts_the_count(
    keyed_gateway: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    known = set(tracker.grants[0].access_tokens)
    for round_s in (0, 400):
        withdraw_all_tokens(tracker)
        await call(keyed_gateway, 4)
        advance_clock(round_s)
        await call(keyed_gateway, 1)
        assert await state(keyed_gateway) == ("needs_reauth" if round_s else "degraded")
        tracker.grants[0].access_tokens = set(known)
        assert await call(keyed_gateway) == {200}
        assert await state(keyed_gateway) == "active"
    withdraw_all_tokens(tracker)
    await call(keyed_gateway, 2)
    tracker.grants[0].access_tokens = set(known)
    await call(keyed_gateway)
    withdraw_all_tokens(tracker)
    await call(keyed_gateway, 2)
    assert await state(keyed_gateway) == "active"
    after = ["degraded", "recovered", "degraded", "needs_reauth", "recovered"]
    assert [event.partition(".")[2] for event in await events(keyed_gateway)] == ["created", *after]


async def test_new_key_under_the_same_id_starts_without_rejections(
    keyed_gateway: RunningGateway, tracker: Tracker
) -> None:
    withdraw_all_tokens(tracker)
    await call(keyed_gateway, 2)
    await connect(keyed_gateway, tracker)
    withdraw_all_tokens(tracker)
    await call(keyed_gateway, 2)
    assert await state(keyed_gateway) == "active"
    await call(keyed_gateway, 1)
    assert await state(keyed_gateway) == "degraded"
    await connect(keyed_gateway, tracker)
    assert await call(keyed_gateway) == {200}
    assert await state(keyed_gateway) == "active"
    assert not keyed_gateway.runtime.live.rejections.suspected


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_rejections_of_a_token_without_a_refresh_token_are_counted(
    method: str, keyed_gateway: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    grant = tracker.grant()
    del grant["refresh_token"]
    await keyed_gateway.import_connection({**grant, "expires_in": 90_000}, "c1")
    withdraw_all_tokens(tracker)
    assert await call(keyed_gateway, 3, integration="tracker", method=method) == {401}
    assert await state(keyed_gateway) == "degraded"
    advance_clock(301)
    await call(keyed_gateway, 2, integration="tracker", method=method)
    assert await state(keyed_gateway) == "needs_reauth"


async def test_refresh_does_not_clear_a_rejection(
    keyed_gateway: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await keyed_gateway.import_connection(tracker.grant(), "c1")
    tracker.forbidden = {"/x"}
    for _ in range(6):
        advance_clock(61)
        assert await call(keyed_gateway, integration="tracker") == {401}
    assert tracker.calls["refresh_token"] >= 5
    assert await state(keyed_gateway) == "needs_reauth"
    tracker.forbidden = set()
    assert await call(keyed_gateway, integration="tracker") == {200}
    assert await state(keyed_gateway) == "active"
    assert [event.partition(".")[2] for event in await events(keyed_gateway)][-3:] == [
        "degraded",
        "needs_reauth",
        "recovered",
    ]


async def test_refusal_by_the_token_endpoint_takes_precedence(
    keyed_gateway: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await keyed_gateway.import_connection(tracker.grant(), "c1")
    withdraw_all_tokens(tracker)
    tracker.grants[-1].revoked = True
    for _ in range(4):
        advance_clock(400)
        await call(keyed_gateway, integration="tracker")
    row = (await keyed_gateway.json("GET", "/connections"))["connections"][0]
    assert row["errors"][0]["log_id"].startswith("invalid_grant")


@pytest.mark.parametrize("fast_path", [True, False])
async def test_403_for_a_day_means_needs_reauth_only_on_several_paths(
    fast_path: bool, keyed_gateway: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    options = {} if fast_path else {"method": "POST"}
    tracker.refusal = 403
    withdraw_all_tokens(tracker)
    assert await call(keyed_gateway, 30, **options) == {403}
    assert await state(keyed_gateway) == "active", "all refusals came within seconds"
    advance_clock(3600)
    await call(keyed_gateway, **options)
    assert await state(keyed_gateway) == "degraded"
    advance_clock(90_000)
    await call(keyed_gateway, 20, **options)
    assert await state(keyed_gateway) == "degraded", "perhaps only this path is forbidden"
    await call(keyed_gateway, 1, "/y", **options)
    assert await state(keyed_gateway) == "needs_reauth"


async def test_403_on_one_path_does_not_degrade_a_working_connection(
    keyed_gateway: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    tracker.refusal, tracker.forbidden = 403, {"/x", "/y"}
    for _ in range(30):
        advance_clock(3600)
        assert await call(keyed_gateway, 1, "/x") == await call(keyed_gateway, 1, "/y") == {403}
        assert await call(keyed_gateway, 1, "/z") == {200}
    assert await state(keyed_gateway) == "active"
    assert await events(keyed_gateway) == [Event.CREATED]


async def test_connection_with_counted_rejections_leaves_the_fast_path_until_a_2xx(
    keyed_gateway: RunningGateway, tracker: Tracker
) -> None:
    tracker.refusal, tracker.forbidden = 403, {"/forbidden"}
    fast_path, suspected = keyed_gateway.fast_path, keyed_gateway.runtime.live.rejections.suspected

    async def fast_calls(path: str) -> int:
        before = fast_path.taken - fast_path.handed_over
        await call(keyed_gateway, 1, path)
        return fast_path.taken - fast_path.handed_over - before

    async def wait_for_fast_path() -> None:
        """The response to a call through the chain arrives before its connection to the provider is kept for the next
        call."""
        async with asyncio.timeout(PATIENCE_S):
            while await fast_calls("/x") == 0:
                pass

    await wait_for_fast_path()
    assert [await fast_calls("/x") for _ in range(3)] == [1, 1, 1]
    assert not suspected
    assert await fast_calls("/forbidden") == 1
    assert len(suspected) == 1
    assert await fast_calls("/x") == 0, "the middleware chain handles the call, and records the 200"
    assert not suspected
    await wait_for_fast_path()
    assert [await fast_calls("/x") for _ in range(3)] == [1, 1, 1]


async def test_rejection_by_another_host_of_base_url_override_is_not_counted(
    keyed_gateway: RunningGateway, tracker: Tracker
) -> None:
    elsewhere = tracker.url.replace("127.0.0.1", "localhost")
    keyed_gateway.document["environments"]["dev"]["integrations"]["keyed"]["allowed_origins"] = [elsewhere]
    await keyed_gateway.restart()
    withdraw_all_tokens(tracker)
    assert await call(keyed_gateway, 5, headers={"Base-Url-Override": elsewhere}) == {401}
    assert not keyed_gateway.runtime.live.rejections.suspected
    assert await call(keyed_gateway, 1) == {401}
    assert keyed_gateway.runtime.live.rejections.suspected


async def test_rejections_of_a_connection_without_a_credential_are_not_counted(
    keyed_gateway: RunningGateway, tracker: Tracker
) -> None:
    body = {"provider_config_key": "open", "connection_id": "c1", "credentials": {"type": "NONE"}}
    await keyed_gateway.json("POST", "/connections", json=body, expect=201)
    assert await call(keyed_gateway, 5, integration="open") == {401}
    assert not keyed_gateway.runtime.live.rejections.suspected


async def test_number_of_remembered_rejections_is_bounded(
    keyed_gateway: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.connections.rejected_credentials.MAX_COUNTED", 3)
    for n in range(5):
        key = tracker.grant()["access_token"]
        body = {"provider_config_key": "keyed", "connection_id": f"b{n}"}
        credentials = {"type": "API_KEY", "apiKey": key}
        await keyed_gateway.json("POST", "/connections", json={**body, "credentials": credentials}, expect=201)
    withdraw_all_tokens(tracker)
    for n in range(5):
        async with keyed_gateway.call_proxy(f"b{n}", integration="keyed") as response:
            assert response.status == 401
    assert [ref.connection_id for ref in keyed_gateway.runtime.live.rejections.suspected] == ["b2", "b3", "b4"]


async def test_rejection_recorded_by_one_node_is_cleared_by_another(
    keyed_gateway: RunningGateway, tracker: Tracker, tmp_path: Any
) -> None:
    known = set(tracker.grants[0].access_tokens)
    withdraw_all_tokens(tracker)
    await call(keyed_gateway, 3)
    assert await state(keyed_gateway) == "degraded"
    other = RunningGateway(keyed_gateway.folder, {**keyed_gateway.document, "server": {"host": "127.0.0.1"}})
    await other.start()
    try:
        tracker.grants[0].access_tokens = known
        assert await call(other) == {200}
        assert await state(keyed_gateway) == "active"
        async with asyncio.timeout(PATIENCE_S):
            while keyed_gateway.runtime.live.rejections.suspected:
                assert await call(keyed_gateway) == {200}
                await asyncio.sleep(0)
    finally:
        await other.stop()
    assert [event.partition(".")[2] for event in await events(keyed_gateway)] == ["created", "degraded", "recovered"]
