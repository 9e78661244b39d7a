"""A refresh uses the reply that an earlier process recorded in the journal, and sends no second token request."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web
from multidict import CIMultiDict

import gateway
from gateway import clock
from gateway.auth.oauth2 import OAuth2
from gateway.errors import InvalidRequest, Unavailable
from gateway.journal import Entry, ProcessMarker, RecordedReply
from gateway.records.connection import Connection, ConnectionRef, Lease
from gateway.records.provider_call import ProviderCall, Reply
from gateway.refresh.auth_exchange import Attempt
from gateway.refresh.decision import Holder
from gateway.refresh.recovery import find_unfinished, recover
from gateway.refresh.save_tokens import token_digest
from gateway.refresh.token_exchange import ExchangeLost, Journals, LocalExchange
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.journal import JournalFile, left
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

REF = ConnectionRef("dev", "tracker", "c1")
EXPIRED_S = 3601


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    node = RunningGateway(tmp_path, document([tracker.url.removeprefix("http://").replace(":", "/32:")]))
    await node.start()
    yield node
    await node.stop()


def folder(running: RunningGateway) -> Path:
    return running.folder / "gateway.db-refresh-journal"


async def call_c1(running: RunningGateway) -> tuple[int, str]:
    async with running.call_proxy("c1") as response:
        body = await response.json()
        return response.status, body.get("token", "")


async def row_of(running: RunningGateway) -> Connection:
    row = await running.runtime.store.connections.get(REF)
    assert row is not None
    return row


def count_failures(row: Connection) -> int:
    return row.failure.attempts if row.failure is not None else 0


async def left_open(running: RunningGateway) -> Connection:
    """Change the row as a gateway does that is killed during the token request. Return the row."""
    row = await row_of(running)
    digest = token_digest(running.runtime.store, row)
    claim = running.runtime.store.refreshes.lease_refresh
    assert await claim(REF, owner="killed", ttl=timedelta(0), known_row=row, intent=digest)
    return await row_of(running)


async def cut_off(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> Entry:
    """Interrupt the refresh of an expired token. Return the journal entry for its replies."""
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    row = await left_open(running)
    return await entry_of(running, row)


async def entry_of(running: RunningGateway, row: Connection) -> Entry:
    await running.runtime.store.journal.prepare("dev")
    entry = running.runtime.store.journal.entry(row)
    assert entry is not None
    return entry


def response_of(result: dict[str, Any]) -> Reply:
    fields = CIMultiDict({"Content-Type": "application/json"})
    return Reply(200, fields, json.dumps(result).encode(), clock.now() - timedelta(minutes=10))


async def test_a_reply_that_was_stored_is_released(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S
    assert (await call_c1(running))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    assert tracker.token_headers[0]["User-Agent"] == "integration-gateway"
    assert left(folder(running)) == []
    assert sorted(path.suffix for path in folder(running).iterdir()) == [".journal", ".process"]
    await running.stop()
    assert list(folder(running).iterdir()) == []
    await running.start()


async def test_a_reply_in_the_journal_is_not_requested_again(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    entry = await entry_of(running, await left_open(running))
    form = await tracker_responses(tracker)
    file = JournalFile(entry.folder)
    file.reply(entry, ProviderCall(f"{tracker.url}/token"), response_of(form))
    assert await call_c1(running) == (200, f"Bearer {form['access_token']}")
    assert tracker.calls["refresh_token"] == 0
    assert (await row_of(running)).expires_at is not None
    ends = (await row_of(running)).expires_at
    assert ends is not None
    assert ends < clock.now() + timedelta(minutes=51), "its lifetime counts from when it was requested"
    file.die()


async def tracker_responses(tracker: Tracker) -> dict[str, Any]:
    """Refresh at the token endpoint, which then has a new token in its grant. Return the body of the reply."""
    body = tracker.refreshed(tracker.grants[0].refresh_token).body
    assert isinstance(body, bytes)
    response: dict[str, Any] = json.loads(body)
    return response


@pytest.mark.parametrize("result", [{"error": "server_error"}, {"no": "token"}])
async def test_recorded_reply_without_a_token_does_not_prevent_a_new_request(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, result: dict[str, Any]
) -> None:
    entry = await cut_off(running, tracker, advance_clock)
    file = JournalFile(entry.folder)
    file.reply(entry, ProviderCall(f"{tracker.url}/token"), response_of(result))
    tracker.ttl_s = 2 * EXPIRED_S
    assert (await call_c1(running))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    file.die()


async def test_recovery_waits_after_a_recorded_reply_was_of_no_use_and_the_endpoint_is_down(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the dead process stays, so that the reply is found at each run of the recovery."""
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 3600.0)
    store, refresher = running.runtime.store, running.runtime.refresher
    entry = await cut_off(running, tracker, advance_clock)
    file = JournalFile(entry.folder)
    file.reply(entry, ProviderCall(f"{tracker.url}/token"), response_of({"no": "token"}))
    file.die()
    tracker.response = web.Response(status=502)
    tried = dict[ConnectionRef, datetime]()
    (row,) = await find_unfinished(store, refresher, print, tried)
    tried[row.ref] = clock.now()
    with pytest.raises(Unavailable):
        await refresher.start(row, force=True)
    assert await find_unfinished(store, refresher, print, tried) == []
    advance_clock(60)
    assert [row.ref for row in await find_unfinished(store, refresher, print, tried)] == [REF]


async def test_replies_of_several_attempts_are_found(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    """If two processes died one after the other, either of them can have received the new token."""
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    row = await left_open(running)
    form = await tracker_responses(tracker)
    first, second = await entry_of(running, row), await entry_of(running, row)
    file = JournalFile(first.folder)
    file.reply(first, ProviderCall(f"{tracker.url}/token"), response_of(form))
    file.reply(second, ProviderCall(f"{tracker.url}/else"), replace(response_of({}), asked_at=clock.now()))
    assert await call_c1(running) == (200, f"Bearer {form['access_token']}")
    assert tracker.calls["refresh_token"] == 0
    file.die()


async def test_lost_exchange_keeps_its_record(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.refresh.backoff.FIRST_WAIT", timedelta(seconds=0))
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 3600.0)
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S
    send = running.runtime.exchange.send

    async def lose_reply(*args: Any, **options: Any) -> Reply:
        """Record the reply in the journal, but lose it before the caller gets it."""
        await send(*args, **options)
        raise ExchangeLost("unreachable", "the parent has ended.")

    with monkeypatch.context() as patch:
        patch.setattr(LocalExchange, "send", lambda _self, *args, **options: lose_reply(*args, **options))
        assert (await call_c1(running))[0] == 503
    assert len([sealed for _, sealed in left(folder(running)) if sealed]) == 1
    assert (await call_c1(running))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    assert not tracker.grants[0].revoked
    assert left(folder(running)) == [], "the attempt that finished the refresh released the record"


async def test_worker_without_its_parent_records_no_failure(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes share the record, and each of them would wait before it tries again."""

    async def unsent(*_: Any, **__: Any) -> Reply:
        raise ExchangeLost("unreachable", "the parent process has ended.", sent=False)

    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S
    before = await row_of(running)
    with monkeypatch.context() as patch:
        patch.setattr(LocalExchange, "send", unsent)
        patch.setattr(LocalExchange, "available", False, raising=False)
        async with running.call_proxy("c1") as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "5")
    after = await row_of(running)
    assert (after.failure, after.state, after.intent, after.lease) == (None, before.state, None, None)
    assert (await call_c1(running))[0] == 200


async def test_journalled_reply_is_kept_while_a_setting_is_missing(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed catalog entry needs a setting that the connection lacks, and the journal has the only copy of the token."""
    monkeypatch.setattr("gateway.refresh.backoff.FIRST_WAIT", timedelta(seconds=0))
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 3600.0)
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S
    send = running.runtime.exchange.send

    async def lose_reply(*args: Any, **options: Any) -> Reply:
        await send(*args, **options)
        raise ExchangeLost("unreachable", "the parent has ended.")

    def incomplete(*_: Any) -> Iterator[Any]:
        raise InvalidRequest("unresolved_setting", "Setting 'region' is missing.")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(LocalExchange, "send", lambda _self, *args, **options: lose_reply(*args, **options))
        assert (await call_c1(running))[0] == 503
    with monkeypatch.context() as patch:
        patch.setattr(OAuth2, "renew", incomplete)
        assert (await call_c1(running))[0] == 400
    assert (await call_c1(running))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    assert not tracker.grants[0].revoked


async def test_reply_to_another_call_is_not_used(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    entry = await cut_off(running, tracker, advance_clock)
    file = JournalFile(entry.folder)
    file.reply(entry, ProviderCall("https://elsewhere.example/token"), response_of({"access_token": "elsewhere"}))
    tracker.ttl_s = 2 * EXPIRED_S
    status, token = await call_c1(running)
    assert (status, tracker.calls["refresh_token"]) == (200, 1)
    assert "elsewhere" not in token
    file.die()


async def test_reply_with_a_new_refresh_token_is_used_after_the_token_url_changed(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    """The former URL has replaced the refresh token, so that no URL accepts the stored one."""
    entry = await cut_off(running, tracker, advance_clock)
    form = await tracker_responses(tracker)
    file = JournalFile(entry.folder)
    file.reply(entry, ProviderCall("https://former.example/token"), response_of(form))
    assert await call_c1(running) == (200, f"Bearer {form['access_token']}")
    assert tracker.calls["refresh_token"] == 0
    assert not tracker.grants[0].revoked
    file.die()


def test_reply_from_a_former_url_is_not_used_if_no_refresh_token_was_sent() -> None:
    """A login at the present URL is still possible, and the former URL can be that of another system."""
    recorded = RecordedReply("one", 0, "POST https://former.example/token", response_of({"refresh_token": "new-token"}))
    exchange = LocalExchange(Journals(), pytest.fail)
    call = ProviderCall("https://present.example/token")
    assert Attempt(exchange, None, [recorded]).recorded_reply(call) is None
    assert Attempt(exchange, None, [recorded], ["sent-token"]).recorded_reply(call) == recorded.reply


async def test_reply_that_the_entry_cannot_read_is_kept_until_a_corrected_entry_reads_it(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.refresh.backoff.FIRST_WAIT", timedelta(seconds=0))
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 0.02)
    runtime, config = running.runtime, running.runtime.generation.config
    wrong = tracker_entry(tracker.url, token_response={"token_path": "data.access_token"})
    write_entry(running.folder, "tracker", wrong)
    assert await gateway.reload(running.app, config)
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            async with running.call_proxy("c1") as response:
                body = await response.json()
            assert (response.status, body["error"]["code"]) == (503, "token_endpoint_unavailable")
            assert "stays in the refresh journal" in body["error"]["message"]
    (first, *_) = [line for line in logs if line["event"] == "token_response_unreadable"]
    assert (first["connection_id"], first["log_level"]) == ("c1", "error")
    assert tracker.calls["refresh_token"] == 1, "the token is spent, and is not sent again"
    assert len([sealed for _, sealed in left(folder(running)) if sealed]) == 1
    monkeypatch.setattr("gateway.refresh.backoff.FIRST_WAIT", timedelta(hours=1))
    assert (await call_c1(running))[0] == 503
    failures = count_failures(await row_of(running))
    recovery = asyncio.create_task(recover(runtime.store, runtime.refresher, runtime.exchange.release, runtime.current))
    async with asyncio.timeout(PATIENCE_S):
        while count_failures(await row_of(running)) == failures:  # then the recovery waits for an hour
            await asyncio.sleep(0.02)
    write_entry(running.folder, "tracker", tracker_entry(tracker.url))
    assert await gateway.reload(running.app, config)
    async with asyncio.timeout(PATIENCE_S):
        while (await row_of(running)).version == 1:
            await asyncio.sleep(0.02)
    recovery.cancel()
    await asyncio.wait({recovery})
    assert (await call_c1(running))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    assert not tracker.grants[0].revoked
    assert left(folder(running)) == []


async def test_reply_without_a_new_refresh_token_is_not_kept(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider possibly has a fault that ends by itself, and still accepts the token that was sent."""
    monkeypatch.setattr("gateway.refresh.backoff.FIRST_WAIT", timedelta(seconds=0))
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S
    sent = tracker.grants[0].refresh_token
    tracker.response = web.json_response({"access_token": None, "refresh_token": sent, "refresh_url": tracker.url})
    assert (await call_c1(running))[0] == 503
    assert left(folder(running)) == []
    tracker.response = None
    assert (await call_c1(running))[0] == 200


async def keep_unread_reply(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    """Let the entry name a wrong place of the token, and refresh once. The reply stays in the journal."""
    wrong = tracker_entry(tracker.url, token_response={"token_path": "data.access_token"})
    write_entry(running.folder, "tracker", wrong)
    assert await gateway.reload(running.app, running.runtime.generation.config)
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S
    assert (await call_c1(running))[0] == 503
    assert tracker.calls["refresh_token"] == 1


async def test_kept_reply_stays_while_the_journal_cannot_be_written(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is on the disk already; only new replies cannot be recorded."""
    monkeypatch.setattr("gateway.refresh.backoff.FIRST_WAIT", timedelta(seconds=0))
    await keep_unread_reply(running, tracker, advance_clock)
    monkeypatch.setattr(LocalExchange, "journal_fault", "the disk is full")
    assert (await call_c1(running))[0] == 503
    assert tracker.calls["refresh_token"] == 1, "the token is spent, and is not sent again"
    assert len([sealed for _, sealed in left(folder(running)) if sealed]) == 1


async def test_reply_with_the_time_of_a_refresh_is_not_kept(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.refresh.backoff.FIRST_WAIT", timedelta(seconds=0))
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.ttl_s = 2 * EXPIRED_S
    tracker.response = web.json_response({"status": "busy", "refreshed_at": "2026-01-01T00:00:00Z"})
    assert (await call_c1(running))[0] == 503
    tracker.response = None
    assert (await call_c1(running))[0] == 200


async def test_a_refresh_waits_for_the_exchange_of_a_running_process(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    entry = await cut_off(running, tracker, advance_clock)
    file = JournalFile(entry.folder)
    file.begin(entry)
    calling = asyncio.ensure_future(call_c1(running))
    done, _ = await asyncio.wait({calling}, timeout=0.3)
    assert not done
    form = await tracker_responses(tracker)
    file.reply(entry, ProviderCall(f"{tracker.url}/token"), response_of(form))
    assert await calling == (200, f"Bearer {form['access_token']}")
    assert tracker.calls["refresh_token"] == 0
    file.die()


async def test_a_refresh_does_not_wait_for_the_exchange_of_a_dead_process(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    entry = await cut_off(running, tracker, advance_clock)
    file = JournalFile(entry.folder)
    file.begin(entry)
    file.die()
    tracker.ttl_s = 2 * EXPIRED_S
    assert (await call_c1(running))[0] == 200
    assert tracker.calls["refresh_token"] == 1
    store = running.runtime.store
    await store.journal.sweep(store.connections.get, running.runtime.exchange.release)
    assert not file.path.exists()


@pytest.mark.parametrize("node", ["", "local."])  # lease owners of earlier versions contain no node name
async def test_lease_of_a_dead_local_process_is_claimed_immediately(
    node: str, running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    row, store = await row_of(running), running.runtime.store
    dead, living = ProcessMarker(folder(running)), ProcessMarker(folder(running))
    name, other = await dead.name(), await living.name()
    for owner in (f"{other}.one", f"{name}.one", f"local.{other}.one"):
        assert await store.holders.holder_of(Lease(owner, clock.now())) is Holder.HERE_ALIVE
    assert await store.refreshes.lease_refresh(
        REF, owner=f"{node}{name}.one", ttl=timedelta(days=1), known_row=row, intent="of the token"
    )
    tracker.ttl_s = 2 * EXPIRED_S
    calling = asyncio.ensure_future(call_c1(running))
    dead.release()  # as the system does for a killed process
    assert (await asyncio.wait_for(calling, PATIENCE_S))[0] == 200
    living.close()
