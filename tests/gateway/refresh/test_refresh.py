"""Token refresh end to end: one token request, callers get new tokens only after the commit, outages lose nothing."""

import asyncio
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from gateway import clock, config
from gateway.app import generations
from gateway.errors import InvalidRequest
from gateway.refresh import schedule
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import closed_port
from tests.fakes.refused_writes import refuse_writes
from tests.fakes.tracker import Tracker

REF = ("dev", "tracker", "c1")


async def call(running: RunningGateway, expect: int = 200) -> Any:
    async with running.call_proxy("c1") as response:
        body = await response.json()
        assert response.status == expect, body
        return body


async def test_expired_token_is_refreshed_before_the_request_is_sent(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    assert (await call(running))["token"] == "Bearer access-1"
    advance_clock(3601)
    assert (await call(running))["token"] == "Bearer access-3"
    assert tracker.calls["refresh_token"] == 1
    assert tracker.token_requests[0]["refresh_token"] == "refresh-0"


async def test_clock_that_differs_from_token_endpoints_is_logged_once(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "provider_dates", clock.ProviderDates())
    ids = ("c1", "c2", "c3", "c4")
    for connection_id in ids:
        await running.import_connection(tracker.grant(), connection_id)
    advance_clock(3601)  # only the clock of this machine is wrong; the header `Date` of the provider is right
    with capture_logs() as logged:
        for item in ids:
            before = clock.now()
            connection = await running.json("GET", f"/connections/{item}?provider_config_key=tracker")
    expires_at = datetime.fromisoformat(connection["credentials"]["expires_at"])
    assert (expires_at - before).total_seconds() == pytest.approx(tracker.ttl_s, abs=PATIENCE_S)
    assert tracker.calls["refresh_token"] == 4
    (line,) = [event for event in logged if event["event"] == "clock_differs_from_providers"]
    assert (line["log_level"], line["offset_s"] < -3600) == ("warning", True)


@pytest.mark.heavy
async def test_500_calls_at_expiry_make_one_token_request(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.hold.clear()
    calls = [asyncio.create_task(call(running)) for _ in range(500)]
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["refresh_token"] == 0:
            await asyncio.sleep(0)
    tracker.hold.set()
    tokens = {reported["token"] for reported in await asyncio.gather(*calls)}
    assert tracker.calls["refresh_token"] == 1
    assert tokens == {"Bearer access-3"}
    assert not tracker.grants[0].revoked


async def test_in_the_refresh_window_the_old_token_is_used_and_refreshed_in_the_background(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3600 - 30)
    tracker.hold.clear()
    assert (await call(running))["token"] == "Bearer access-1"
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["refresh_token"] == 0:
            await asyncio.sleep(0)
    tracker.hold.set()
    async with asyncio.timeout(PATIENCE_S):
        while (await running.runtime.store.connections.get(_ref())).version == 1:  # type: ignore[union-attr]
            await asyncio.sleep(0)
        # the row is visible before the task that writes the row has ended
        while running.runtime.refresher.is_refreshing(_ref()):
            await asyncio.sleep(0)
    advance_clock(2)
    assert (await call(running))["token"] == "Bearer access-3"
    assert tracker.calls["refresh_token"] == 1


async def test_recreated_connection_keeps_its_own_credential(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.hold.clear()
    waiting = asyncio.create_task(call(running))
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["refresh_token"] == 0:
            await asyncio.sleep(0)
    await running.runtime.store.connections.delete(_ref(), now=clock.now())
    again = tracker.grant()
    await running.import_connection(again)
    tracker.hold.set()
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(PATIENCE_S):
        while running.runtime.refresher.is_refreshing(_ref()):
            await asyncio.sleep(0)
    connection = await running.json("GET", "/connections/c1?provider_config_key=tracker", expect=200)
    assert connection["credentials"]["access_token"] == again["access_token"]


@pytest.fixture
def last_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests wait for the refresh in the last minute before the expiry, because a second is too short for a test
    on a busy machine.
    """
    monkeypatch.setattr(schedule, "WAIT_WINDOW", timedelta(seconds=PATIENCE_S))


async def test_request_waits_for_the_refresh_just_before_the_expiry(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, last_stretch: None
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3600 - PATIENCE_S / 2)
    assert (await call(running))["token"] == "Bearer access-3", "the old token could expire on its way to the provider"
    assert tracker.calls["refresh_token"] == 1


async def test_unrefreshable_token_is_used_until_it_expires(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, last_stretch: None
) -> None:
    await running.import_connection(tracker.grant())
    tracker.response = web.Response(status=500, text="down")
    advance_clock(3600 - PATIENCE_S / 2)
    assert (await call(running))["token"] == "Bearer access-1"
    assert tracker.calls["refresh_token"] == 1


async def test_request_waits_for_a_slow_refresh_until_its_token_expires(
    running: RunningGateway, tracker: Tracker, advance_stopped_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    tracker.hold.clear()
    advance_stopped_clock(3600 - 0.7)
    assert (await call(running))["token"] == "Bearer access-1"
    async with asyncio.timeout(PATIENCE_S):
        while not tracker.calls["refresh_token"]:
            await asyncio.sleep(0)
    assert tracker.calls["refresh_token"] == 1
    tracker.hold.set()


@pytest.mark.parametrize("left_s", [PATIENCE_S / 2, 2 * PATIENCE_S], ids=["in the last stretch", "before it"])
@pytest.mark.parametrize("fault", [InvalidRequest("unresolved_setting", "a setting is missing"), KeyError("ours")])
async def test_valid_token_is_used_whatever_error_its_refresh_raises(
    running: RunningGateway,
    tracker: Tracker,
    advance_clock: Any,
    last_stretch: None,
    monkeypatch: pytest.MonkeyPatch,
    fault: Exception,
    left_s: float,
) -> None:
    async def raise_fault(*_: Any, **__: Any) -> Any:
        raise fault

    await running.import_connection(tracker.grant())
    monkeypatch.setattr("gateway.refresh.protocol.RefreshProtocol.refresh", raise_fault)
    advance_clock(3600 - left_s)
    assert (await call(running))["token"] == "Bearer access-1"
    if isinstance(fault, InvalidRequest):
        connection = await running.json("GET", "/connections/c1?provider_config_key=tracker", expect=200)
        assert connection["credentials"]["access_token"] == "access-1"


async def test_token_that_expires_during_a_failed_refresh_is_not_returned(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    tracker.response = web.Response(status=500, text="down")
    advance_clock(3600 - 30)
    tracker.hold.clear()
    call = asyncio.create_task(running.json("GET", "/connections/c1?provider_config_key=tracker", expect=503))
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["refresh_token"] == 0:
            await asyncio.sleep(0)
    advance_clock(60)
    tracker.hold.set()
    assert (await call)["error"]["code"] == "token_endpoint_unavailable"


async def test_disconnect_of_a_client_does_not_stop_the_refresh(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.hold.clear()
    disconnecting = asyncio.create_task(call(running))
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["refresh_token"] == 0:
            await asyncio.sleep(0)
    disconnecting.cancel()
    await asyncio.gather(disconnecting, return_exceptions=True)
    tracker.hold.set()
    assert (await call(running))["token"] == "Bearer access-3"
    assert tracker.calls["refresh_token"] == 1


async def test_the_rotated_pair_survives_a_restart(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    await call(running)
    await running.restart()
    assert (await call(running))["token"] == "Bearer access-3"
    advance_clock(3601)
    assert (await call(running))["token"] == "Bearer access-5"
    assert not tracker.grants[0].revoked


async def test_a_provider_that_does_not_rotate_keeps_its_refresh_token(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    tracker.rotate = False
    await running.import_connection(tracker.grant())
    for _ in range(3):
        advance_clock(3601)
        await call(running)
    assert [sent["refresh_token"] for sent in tracker.token_requests] == ["refresh-0"] * 3


BAD_DAYS = {
    "500": web.Response(status=500, text="down"),
    "html": web.Response(status=200, text="<html>Sign in</html>", content_type="text/html"),
    "429": web.Response(status=429, headers={"Retry-After": "7"}),
    "too large": web.Response(status=200, body=b" " * (2 << 20), content_type="application/json"),
    "no token": web.json_response({"ok": True}),
    "unknown error": web.json_response({"error": "try_later"}, status=400),
}


async def test_valid_token_is_used_while_the_store_refuses_writes(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3600 - 30)
    with monkeypatch.context() as full:
        refused = refuse_writes(full, running.runtime.store)
        for _ in range(3):
            assert (await call(running))["token"] == "Bearer access-1"
            async with asyncio.timeout(PATIENCE_S):
                while running.runtime.refresher.is_refreshing(_ref()):
                    await asyncio.sleep(0)
            advance_clock(1.5)
    assert refused, "a refresh was tried, and could not be recorded"
    assert tracker.calls["refresh_token"] == 0
    assert (await call(running))["token"] == "Bearer access-1"
    async with asyncio.timeout(PATIENCE_S):
        while (await running.runtime.store.connections.get(_ref())).version == 1:  # type: ignore[union-attr]
            # the last attempt may have failed a moment ago, so the next attempt waits a second
            async with running.call_proxy("c1"):
                await asyncio.sleep(0)


@pytest.mark.parametrize("day", BAD_DAYS)
async def test_valid_token_is_used_while_the_token_endpoint_is_down(
    day: str, running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3600 - 30)
    tracker.response = BAD_DAYS[day]
    assert (await call(running))["token"] == "Bearer access-1"
    async with asyncio.timeout(PATIENCE_S):
        while (await running.runtime.store.connections.get(_ref())).failure is None:  # type: ignore[union-attr]
            await asyncio.sleep(0)
    advance_clock(2)
    assert (await call(running))["token"] == "Bearer access-1"
    assert tracker.calls["refresh_token"] == 1  # no request before the retry time


async def test_unreachable_token_endpoint_is_reported_with_its_origin_and_the_cause(
    tracker: Tracker, tmp_path: Path, advance_clock: Any
) -> None:
    with closed_port() as port:
        origin = f"http://127.0.0.1:{port}"
        write_entry(tmp_path, "tracker", {**tracker_entry(tracker.url), "token_url": f"{origin}/token"})
        tracker_port = tracker.url.rpartition(":")[2]
        gateway = RunningGateway(tmp_path, document([f"127.0.0.1/32:{tracker_port}", f"127.0.0.1/32:{port}"]))
        await gateway.start()
        await gateway.import_connection(tracker.grant())
        advance_clock(3601)
        async with gateway.call_proxy("c1") as response:
            error = (await response.json())["error"]
        await gateway.stop()
    cause = f"{origin} could not be reached: "
    assert error["payload"]["provider_message"].startswith(cause)
    assert error["message"].startswith(f"The token of connection 'c1' has expired and cannot be refreshed now ({cause}")
    assert re.search(r"[^.]\)\. Retry in \d+ s\.$", error["message"])


@pytest.mark.parametrize("day", BAD_DAYS)
async def test_outage_with_an_expired_token_is_503_until_it_ends(
    day: str, running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = BAD_DAYS[day]
    for _ in range(3):
        async with running.call_proxy("c1") as response:
            body = await response.json()
            assert (response.status, body["error"]["code"]) == (503, "token_endpoint_unavailable")
            assert int(response.headers["Retry-After"]) >= 1
            assert body["error"]["payload"]["retry_at"]
    assert tracker.calls["refresh_token"] == 1
    tracker.response = None
    advance_clock(3600)
    assert (await call(running))["token"] == "Bearer access-3"


async def test_final_refusal_is_424_and_is_not_retried(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": "invalid_grant", "error_description": "Token revoked"}, status=400)
    for _ in range(3):
        response = await call(running, expect=424)
        assert response["error"]["code"] == "reconnect_needed"
        assert response["error"]["payload"]["provider_message"] == "Token revoked"
    advance_clock(7200)
    await call(running, expect=424)
    assert tracker.calls["refresh_token"] == 1
    listed = await running.json("GET", "/connections")
    assert listed["connections"][0]["errors"][0]["type"] == "auth"


async def test_refused_client_is_retried_later(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": "invalid_client"}, status=401)
    response = await call(running, expect=424)
    assert "client_secret" in response["error"]["message"]
    tracker.response = None
    advance_clock(120)
    assert (await call(running))["token"] == "Bearer access-3"


@pytest.mark.parametrize("changed", [True, False])
async def test_changed_client_is_tried_immediately(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, changed: bool
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": "invalid_client"}, status=401)
    for _ in range(6):  # each wait is longer than the one before
        await call(running, expect=424)
        advance_clock(600)
    await call(running, expect=424)
    tracker.response = None
    integration = running.document["environments"]["dev"]["integrations"]["tracker"]
    integration["client_secret"] = "corrected" if changed else integration["client_secret"]
    generations.replace_generation(
        running.runtime, generations.check_configuration(config.parse(running.document, base=running.folder))
    )
    if changed:
        assert (await call(running))["token"] == "Bearer access-3"
    else:
        await call(running, expect=424)


async def test_import_makes_an_ended_connection_active(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": "invalid_grant"}, status=400)
    await call(running, expect=424)
    tracker.response = None
    await running.import_connection(tracker.grant())
    assert (await call(running))["token"] == "Bearer access-3"


async def test_a_token_without_a_refresh_token_ends_with_424_and_says_why(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    grant = tracker.grant()
    del grant["refresh_token"]
    await running.import_connection(grant)
    await call(running)
    advance_clock(3601)
    response = await call(running, expect=424)
    assert response["error"]["payload"]["reason"] == "no_refresh_token"


async def test_token_without_expiry_is_not_refreshed(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    tracker.ttl_s = None
    await running.import_connection(tracker.grant())
    advance_clock(10_000_000)
    assert (await call(running))["token"] == "Bearer access-1"
    assert tracker.calls["refresh_token"] == 0


async def test_reading_a_connection_refreshes_it(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    await running.import_connection(tracker.grant())
    url = "/connections/c1?provider_config_key=tracker&force_refresh=false&refresh_token=false"
    assert (await running.json("GET", url))["credentials"]["access_token"] == "access-1"
    advance_clock(3600 - 30)
    body = await running.json("GET", url)
    assert body["credentials"]["access_token"] == "access-3"
    assert "refresh_token" not in body["credentials"]
    assert "refresh_token" not in body["credentials"]["raw"]
    assert body["last_fetched_at"]


async def test_a_read_can_force_a_refresh_and_show_the_refresh_token(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    url = "/connections/c1?provider_config_key=tracker&force_refresh=true&refresh_token=true"
    body = await running.json("GET", url)
    assert (body["credentials"]["access_token"], body["credentials"]["refresh_token"]) == ("access-3", "refresh-2")
    assert (await call(running))["token"] == "Bearer access-3"


async def test_read_without_a_possible_refresh_returns_no_credentials(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.json_response({"error": "invalid_grant"}, status=400)
    body = await running.json("GET", "/connections/c1?provider_config_key=tracker", expect=424)
    shown = body["error"]["payload"]["connection"]
    assert (shown["connection_id"], shown["credentials"]) == ("c1", {})


async def test_force_is_honored_while_an_earlier_failure_says_to_wait(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    tracker.response = web.Response(status=500)
    await call(running, expect=503)
    tracker.response = None
    body = await running.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true", expect=200)
    assert body["credentials"]["access_token"] == "access-3"


async def test_two_nodes_on_one_store_make_one_token_request(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    other = RunningGateway(running.folder, {**running.document, "server": {}})
    await other.start()
    try:
        await running.import_connection(tracker.grant())
        await asyncio.gather(call(running), call(other))
        advance_clock(3601)
        tracker.hold.clear()
        calls = [asyncio.create_task(call(node)) for node in (running, other) for _ in range(20)]
        async with asyncio.timeout(PATIENCE_S):
            while tracker.calls["refresh_token"] == 0:
                await asyncio.sleep(0)
        tracker.hold.set()
        assert {reported["token"] for reported in await asyncio.gather(*calls)} == {"Bearer access-3"}
        assert tracker.calls["refresh_token"] == 1
    finally:
        await other.stop()


async def test_a_connection_deleted_on_another_node_is_refused_here(running: RunningGateway, tracker: Tracker) -> None:
    other = RunningGateway(running.folder, {**running.document, "server": {}})
    await other.start()
    try:
        await running.import_connection(tracker.grant())
        await call(running)
        await other.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                async with running.call_proxy("c1") as response:
                    if response.status == 404:
                        body = await response.json()
                        break
        assert body["error"]["code"] == "unknown_connection"
    finally:
        await other.stop()


def _ref() -> Any:
    from gateway.records.connection import ConnectionRef

    return ConnectionRef(*REF)


async def test_rotated_token_is_stored_after_storage_errors(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    store = running.runtime.store.refreshes
    save, failures = store.save_refreshed, [RuntimeError("odd"), OSError("full"), ValueError("key")]

    async def fail_first(*args: Any, **kwargs: Any) -> Any:
        if failures:
            raise failures.pop()
        return await save(*args, **kwargs)

    monkeypatch.setattr(store, "save_refreshed", fail_first)
    monkeypatch.setattr("gateway.refresh.save_tokens.SAVE_AGAIN_S", (0,))
    assert (await call(running))["token"] == "Bearer access-3"
    assert tracker.calls["refresh_token"] == 1
    assert not tracker.grants[0].revoked


async def test_change_feed_continues_after_storage_errors(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = RunningGateway(running.folder, {**running.document, "server": {}})
    await other.start()
    try:
        await running.import_connection(tracker.grant(), "c1")
        await running.import_connection(tracker.grant(), "c2")
        for name in ("c1", "c2"):
            async with running.call_proxy(name) as response:
                assert response.status == 200
        store = running.runtime.store.connections
        get, failures = store.get, [RuntimeError("odd"), OSError("gone")]

        async def fail_first(ref: Any) -> Any:
            if failures:
                raise failures.pop()
            return await get(ref)

        monkeypatch.setattr(store, "get", fail_first)
        for name in ("c1", "c2"):
            await other.json("DELETE", f"/connections/{name}?provider_config_key=tracker", expect=200)
        async with asyncio.timeout(PATIENCE_S):
            for name in ("c1", "c2"):
                status = 200
                while status != 404:
                    async with running.call_proxy(name) as response:
                        status = response.status
    finally:
        await other.stop()


async def test_a_credential_is_sealed_again_once_it_is_not_used(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    await call(running)
    live = running.runtime.live
    assert (live.entry_count, live.decrypted_count) == (1, 1)
    advance_clock(61)
    async with asyncio.timeout(PATIENCE_S):
        while live.decrypted_count:
            await asyncio.sleep(0)


async def test_a_database_that_is_removed_is_noticed_before_anything_is_lost(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    await call(running)
    (running.folder / "gateway.db").unlink()
    body = {"provider_config_key": "tracker", "credentials": {"access_token": tracker.grant()["access_token"]}}
    reply = await running.json("POST", "/connections", json=body, expect=503)
    assert reply["error"]["code"] == "store_unavailable"
    assert "removed" in reply["error"]["message"]
    assert not (running.folder / "gateway.db").exists(), "no process created a new file"
    async with running.http.get(f"{running.url}/ready") as response:
        assert response.status == 503
    assert (await call(running))["token"]  # calls through connections in memory still work


async def test_lifetime_counts_from_the_request(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(3601)
    asked_at = clock.now()
    tracker.hold.clear()
    calling = asyncio.create_task(call(running))
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["refresh_token"] == 0:
            await asyncio.sleep(0)
    advance_clock(100)
    tracker.hold.set()
    await calling
    row = await running.runtime.store.connections.get(_ref())
    assert row is not None
    assert row.expires_at is not None
    assert row.expires_at - asked_at < timedelta(seconds=3660)


async def test_failed_forced_refresh_is_reported_with_the_valid_token(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    tracker.response = web.Response(status=500)
    url = f"{running.url}/connections/c1?provider_config_key=tracker&force_refresh=true"
    async with running.http.get(url, headers=running.headers) as response:
        body = await response.json()
    assert (response.status, body["credentials"]["access_token"]) == (200, "access-1")
    assert response.headers["Gateway-Refresh-Failed"] == "token_endpoint_unavailable"
    assert body["state"] == "degraded"
    assert body["errors"][0]["log_id"].startswith("token_endpoint_unavailable ")
    tracker.response = None
    async with running.http.get(url, headers=running.headers) as response:
        body = await response.json()
    assert "Gateway-Refresh-Failed" not in response.headers
    assert (body["state"], body["errors"]) == ("active", [])
