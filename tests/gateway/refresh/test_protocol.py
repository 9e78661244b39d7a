"""The refresh protocol: lease, intent, fence, and what other nodes do if a lease holder stalls or dies."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web

from gateway import clock
from gateway.catalog.load_catalog import Catalog
from gateway.errors import NotFound
from gateway.observe.metrics import REFRESH_WAITS
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.states import State
from gateway.refresh.decision import RefreshStep
from gateway.refresh.protocol import RefreshProtocol
from gateway.refresh.recovery import find_unfinished, recover
from gateway.refresh.save_tokens import LEASE, RENEW_EVERY_S, TOKEN_CALL_S, token_digest
from gateway.store.journal_recovery import JournalUnreadable
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.journal import left
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

REF = ConnectionRef("dev", "tracker", "c1")
EXPIRED_S = 3601
GONE = web.json_response({"error": "invalid_grant", "error_description": "no such token"}, status=400)


@pytest.fixture
async def second_node(running: RunningGateway) -> AsyncIterator[RunningGateway]:
    """A second node on the same store."""
    node = RunningGateway(running.folder, {**running.document, "server": {}})
    await node.start()
    yield node
    await node.stop()


@pytest.fixture
def renewal_sleeps(monkeypatch: pytest.MonkeyPatch) -> "list[asyncio.Future[None]]":
    """Replace the sleep between two lease renewals. Each sleep ends when the test completes its future in this list."""
    waiting: list[asyncio.Future[None]] = []

    async def sleep(seconds: float) -> None:
        if seconds == RENEW_EVERY_S:
            waiting.append(asyncio.get_running_loop().create_future())
            await waiting[-1]
        else:
            await asyncio.sleep(min(seconds, 0.01))

    monkeypatch.setattr(clock, "sleep", sleep)
    return waiting


async def row_of(running: RunningGateway) -> Connection:
    row = await running.runtime.store.connections.get(REF)
    assert row is not None
    return row


async def wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)


async def status_of(running: RunningGateway) -> int:
    async with running.call_proxy("c1") as response:
        await response.read()
        status: int = response.status
        return status


async def left_open(running: RunningGateway) -> None:
    """Change the row as a process does that is killed between intent and commit."""
    row = await row_of(running)
    leased = await running.runtime.store.refreshes.lease_refresh(
        REF, owner="killed", ttl=LEASE, known_row=row, intent=token_digest(running.runtime.store, row)
    )
    assert leased


async def history_reasons(running: RunningGateway) -> list[tuple[str, str]]:
    row = await row_of(running)
    return [(change.state.value, change.reason) for change in await running.runtime.store.history.changes_of(row.id)]


def test_token_call_ends_before_the_lease_and_the_lease_is_renewed_earlier() -> None:
    assert 25 < TOKEN_CALL_S < LEASE.total_seconds()
    assert LEASE.total_seconds() > RENEW_EVERY_S * 2


async def test_the_intent_is_on_the_disk_before_the_token_is_sent(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.hold.clear()
    calling = asyncio.create_task(status_of(running))
    await wait_until(lambda: tracker.calls["refresh_token"])
    intent = (await row_of(running)).intent
    assert intent is not None
    assert "refresh-0" not in intent.digest
    tracker.hold.set()
    assert await calling == 200
    assert (await row_of(running)).intent is None


async def test_row_in_memory_is_leased_without_a_read(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    assert await status_of(running) == 200
    calls_at_looks: list[int] = []
    read = RefreshProtocol._read

    async def record_look(self: RefreshProtocol, ref: ConnectionRef) -> Connection:
        calls_at_looks.append(tracker.calls["refresh_token"])
        return await read(self, ref)

    monkeypatch.setattr(
        RefreshProtocol, "_read", record_look
    )  # the store's own method stays unchanged, because the change feed may call it at the same time
    advance_clock(EXPIRED_S)
    assert await status_of(running) == 200
    assert tracker.calls["refresh_token"] == 1
    assert 0 not in calls_at_looks


async def test_unknown_intent_is_noticed_before_the_token_is_sent(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    assert await status_of(running) == 200  # from now on, the row is in memory, without an intent
    await left_open(running)
    advance_clock(EXPIRED_S)
    tracker.refreshed("refresh-0")  # the provider replaced the token, and its response was lost
    assert await status_of(running) == 424
    assert (await row_of(running)).state_reason == "rotation_lost"


async def test_renewed_lease_prevents_a_second_request_to_a_slow_token_endpoint(
    running: RunningGateway,
    second_node: RunningGateway,
    tracker: Tracker,
    advance_clock: Any,
    renewal_sleeps: "list[asyncio.Future[None]]",
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.hold.clear()
    first = asyncio.create_task(status_of(running))
    await wait_until(lambda: tracker.calls["refresh_token"])
    for beat in range(4):  # 40 s, a third longer than the lease
        await wait_until(lambda beat=beat: len(renewal_sleeps) > beat)
        advance_clock(RENEW_EVERY_S)
        renewal_sleeps[beat].set_result(None)
    await wait_until(lambda: len(renewal_sleeps) > 4)
    second = asyncio.create_task(status_of(second_node))
    await wait_until(lambda: waited(second_node))
    tracker.hold.set()
    assert await asyncio.gather(first, second) == [200, 200]
    assert tracker.calls["refresh_token"] == 1
    assert (waited(running), waited(second_node)) == (0, 1)


def waited(running: RunningGateway) -> float:
    """Return `gateway_token_refresh_waits_total`: number of refreshes that waited for another node's lease."""
    (numbers,) = [item for key, item in running.runtime.metrics.page.read() if key[0] == REFRESH_WAITS] or [[0.0]]
    return numbers[0]


def stalling(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Block saves until the returned event is set. Each blocked save already has the provider's response."""
    wake, save = asyncio.Event(), running.runtime.store.refreshes.save_refreshed

    async def stall(*args: Any, **kwargs: Any) -> Any:
        await wake.wait()
        return await save(*args, **kwargs)

    monkeypatch.setattr(running.runtime.store.refreshes, "save_refreshed", stall)
    return wake


async def test_next_holder_finds_the_reply_of_a_stalled_one_in_the_journal(
    running: RunningGateway,
    second_node: RunningGateway,
    tracker: Tracker,
    advance_clock: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    wake = stalling(running, monkeypatch)
    stalled = asyncio.create_task(status_of(running))
    folder = running.runtime.store.journal.folder
    assert folder is not None
    await wait_until(lambda: [sealed for _, sealed in left(folder) if sealed])
    advance_clock(LEASE.total_seconds() + 1)
    assert await status_of(second_node) == 200
    refreshed = await row_of(second_node)
    wake.set()
    assert await stalled == 200
    after = await row_of(running)
    assert (after.version, after.credential) == (refreshed.version, refreshed.credential)
    assert tracker.calls["refresh_token"] == 1
    assert not tracker.grants[0].revoked


async def test_lease_is_renewed_after_an_unexpected_error(
    running: RunningGateway,
    tracker: Tracker,
    advance_clock: Any,
    renewal_sleeps: "list[asyncio.Future[None]]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the renewal, another process would take the lease while this one stores the only new token."""
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.hold.clear()
    calling = asyncio.create_task(status_of(running))
    await wait_until(lambda: tracker.calls["refresh_token"] and renewal_sleeps)

    async def failing(*_: Any, **__: Any) -> bool:
        raise RuntimeError("a bug")

    with structlog.testing.capture_logs() as logged, monkeypatch.context() as patch:
        patch.setattr(running.runtime.store.refreshes, "extend_lease", failing)
        renewal_sleeps[-1].set_result(None)
        await wait_until(
            lambda: [one for one in logged if one["event"] == "refresh_lease_not_renewed"] and len(renewal_sleeps) > 1
        )
    tracker.hold.set()
    assert await calling == 200


@pytest.fixture
def without_journal(running: RunningGateway, second_node: RunningGateway) -> None:
    """Remove the journal's folder from both gateways. Without a journal, a response is only in memory until it is
    stored.
    """
    for item in (running, second_node):
        item.runtime.store.journal.folder = item.runtime.store.journal.marker = None


async def test_stalled_holder_cannot_overwrite_a_newer_token(
    running: RunningGateway,
    second_node: RunningGateway,
    without_journal: None,
    tracker: Tracker,
    advance_clock: Any,
    renewal_sleeps: "list[asyncio.Future[None]]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracker.rotate = False
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    wake = stalling(running, monkeypatch)
    stalled = asyncio.create_task(status_of(running))
    await wait_until(lambda: tracker.calls["refresh_token"] == 1)
    advance_clock(LEASE.total_seconds() + 1)
    assert await status_of(second_node) == 200
    refreshed = await row_of(second_node)
    wake.set()
    assert await stalled == 200
    after = await row_of(running)
    assert (after.version, after.credential) == (refreshed.version, refreshed.credential)
    assert tracker.calls["refresh_token"] == 2


async def test_stalled_holder_saves_the_only_valid_token(
    running: RunningGateway,
    second_node: RunningGateway,
    without_journal: None,
    tracker: Tracker,
    advance_clock: Any,
    renewal_sleeps: "list[asyncio.Future[None]]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    wake = stalling(running, monkeypatch)
    stalled = asyncio.create_task(status_of(running))
    await wait_until(lambda: tracker.calls["refresh_token"] == 1)
    await wait_until(lambda: renewal_sleeps)
    advance_clock(LEASE.total_seconds() + 1)
    tracker.response = GONE
    assert await status_of(second_node) == 424
    assert (await row_of(second_node)).state_reason == "rotation_lost"
    wake.set()
    assert await stalled == 200
    after = await row_of(running)
    assert (after.version, after.state) == (2, State.ACTIVE)


async def test_open_intent_of_a_dead_process_is_finished_at_the_next_start(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    await left_open(running)
    advance_clock(LEASE.total_seconds() + 1)
    await running.restart()
    await wait_until(lambda: tracker.calls["refresh_token"])
    await wait_until(lambda: not running.runtime.refresher.is_refreshing(REF))
    row = await row_of(running)
    assert (row.version, row.intent, row.state) == (2, None, State.ACTIVE)
    assert tracker.calls["refresh_token"] == 1


async def test_interrupted_refresh_stays_open_while_the_catalog_has_no_entry(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator can remove the catalog entry of an integration that was made through the API, and restore it later."""
    await running.import_connection(tracker.grant())
    await left_open(running)
    store, refresher, row = running.runtime.store, running.runtime.refresher, await row_of(running)
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "get", lambda _self, _name: None)
        advance_clock(EXPIRED_S)
        with pytest.raises(NotFound, match="no longer in the catalog"):
            await refresher.start(row, force=True)
        assert await find_unfinished(store, refresher, print) == []
        async with running.call_proxy("c1") as response:
            assert (await response.json())["error"]["code"] == "unknown_provider_template"
    after = await row_of(running)
    assert (after.state, after.failure, after.intent) == (State.ACTIVE, None, row.intent)


async def test_intent_under_a_valid_lease_is_left_to_its_holder(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    await left_open(running)
    store, refresher = running.runtime.store, running.runtime.refresher
    assert await find_unfinished(store, refresher, print) == []
    advance_clock(LEASE.total_seconds())
    assert [row.ref for row in await find_unfinished(store, refresher, print)] == [REF]


async def test_recovery_continues_after_a_failed_sweep(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 0.01)
    await running.import_connection(tracker.grant())
    await left_open(running)
    advance_clock(LEASE.total_seconds() + 1)
    store, refresher = running.runtime.store, running.runtime.refresher
    assert store.journal.folder is not None
    no_file = store.journal.folder / "0123-1.journal"
    no_file.mkdir(parents=True)
    with structlog.testing.capture_logs() as logged:
        recovering = asyncio.create_task(recover(store, refresher, print, running.runtime.current))
        await wait_until(
            lambda: recovering.done() or len([event for event in logged if event["event"] == "recovery_failed"]) > 1
        )
        no_file.rmdir()
        await wait_until(lambda: recovering.done() or tracker.calls["refresh_token"])
    assert not recovering.done()
    recovering.cancel()


async def test_recovery_continues_after_an_unexpected_error(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 0.01)
    await running.import_connection(tracker.grant())
    await left_open(running)
    advance_clock(LEASE.total_seconds() + 1)
    store, refresher = running.runtime.store, running.runtime.refresher
    fault = RuntimeError("a bug")

    async def failing(**_: Any) -> list[Connection]:
        raise fault

    with structlog.testing.capture_logs() as logged, monkeypatch.context() as patch:
        patch.setattr(store.refreshes, "find_unsettled", failing)
        recovering = asyncio.create_task(recover(store, refresher, print, running.runtime.current))
        await wait_until(
            lambda: recovering.done() or len([event for event in logged if event["event"] == "recovery_failed"]) > 1
        )
        patch.undo()
        await wait_until(lambda: recovering.done() or tracker.calls["refresh_token"])
    assert not recovering.done()
    recovering.cancel()
    first = next(event for event in logged if event["event"] == "recovery_failed")
    assert (first["detail"], first["exc_info"]) == ("a bug", fault)


async def two_left_open(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    """Add the connections `c1` and `c2`, whose refreshes a killed process has not finished."""
    store = running.runtime.store
    for ref in (REF, REF._replace(connection_id="c2")):
        await running.import_connection(tracker.grant(), ref.connection_id)
        row = await store.connections.get(ref)
        assert await store.refreshes.lease_refresh(ref, owner="killed", ttl=LEASE, known_row=row, intent="digest")
    advance_clock(LEASE.total_seconds() + 1)


@pytest.mark.parametrize(
    "fault",
    [
        JournalUnreadable("it needs an encryption key that store.encryption_keys does not have"),
        RuntimeError("a bug"),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_recovery_skips_a_row_whose_step_cannot_be_decided(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    await two_left_open(running, tracker, advance_clock)
    store, refresher, requests = running.runtime.store, running.runtime.refresher, list[str]()
    next_step = refresher.next_step

    async def next_step_of(row: Connection, *more: Any) -> RefreshStep:
        requests.append(row.ref.connection_id)
        if len(requests) == 1:
            raise fault
        return await next_step(row, *more)

    monkeypatch.setattr(refresher, "next_step", next_step_of)
    with structlog.testing.capture_logs() as logged:
        assert [row.ref.connection_id for row in await find_unfinished(store, refresher, print)] == requests[1:]
    assert len(requests) == 2
    assert [one["event"] for one in logged] == ["recovery_failed"]


async def test_refreshes_that_fail_again_and_again_do_not_keep_others_from_their_recovery(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt leaves its row unchanged if, for example, the credential's encryption key is missing."""
    monkeypatch.setattr("gateway.refresh.recovery.EVERY_S", 0.01)
    monkeypatch.setattr("gateway.refresh.recovery.MAX_CONNECTIONS", 1)
    await two_left_open(running, tracker, advance_clock)
    started = list[str]()
    refresher = running.runtime.refresher
    monkeypatch.setattr(refresher, "start", lambda row, **_: started.append(row.ref.connection_id))
    recovering = asyncio.create_task(recover(running.runtime.store, refresher, print, running.runtime.current))
    await wait_until(lambda: recovering.done() or len(started) > 8)
    assert not recovering.done()
    recovering.cancel()
    assert set(started) == {"c1", "c2"}


async def test_file_that_cannot_be_removed_does_not_stop_the_recovery(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await two_left_open(running, tracker, advance_clock)
    store, refresher = running.runtime.store, running.runtime.refresher
    assert store.journal.folder is not None
    (store.journal.folder / "0123-1.journal").mkdir(parents=True)
    with structlog.testing.capture_logs() as logged:
        assert len(await find_unfinished(store, refresher, print)) == 2
    assert [one["event"] for one in logged] == ["recovery_failed"]


async def test_rotation_lost_with_its_process_is_reported_once_and_not_retried(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    await left_open(running)
    tracker.refreshed("refresh-0")  # the provider replaced the token, and its response was lost
    advance_clock(EXPIRED_S)
    for _ in range(3):
        async with running.call_proxy("c1") as response:
            body = await response.json()
            assert (response.status, body["error"]["code"]) == (424, "reconnect_needed")
            assert body["error"]["payload"]["reason"] == "rotation_lost"
    await running.restart()
    advance_clock(7200)
    assert await status_of(running) == 424
    assert tracker.calls["refresh_token"] == 1
    assert await history_reasons(running) == [("active", "authorized"), ("needs_reauth", "rotation_lost")]


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ({"status": 502}, "rotation_lost"),
        ({"status": 503}, "rotation_lost"),
        ({"status": 503, "headers": {"Retry-After": "60"}}, "invalid_grant"),
        ({"text": '{"token": "elsewhere"}', "content_type": "application/json"}, "rotation_lost"),
        ({"status": 429}, "invalid_grant"),
    ],
)
async def test_refusal_after_a_lost_response_differs_from_a_revocation(
    before: dict[str, Any], reason: str, running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.response = web.Response(**before)
    assert await status_of(running) == 503
    tracker.response = GONE
    advance_clock(120)
    assert await status_of(running) == 424
    assert (await row_of(running)).state_reason == reason
    assert (await row_of(running)).intent is None


async def test_refused_client_does_not_close_a_refresh_whose_response_was_lost(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    """A refusal of the client says nothing about the token. The response can still be in another machine's journal."""
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.response = web.Response(status=502)
    assert await status_of(running) == 503
    sent = (await row_of(running)).intent
    tracker.response = web.json_response({"error": "invalid_client"}, status=401)
    advance_clock(120)
    assert await status_of(running) == 424
    row = await row_of(running)
    assert (row.state_reason, row.intent) == ("invalid_client", sent)
    tracker.response = GONE
    advance_clock(3600)
    assert await status_of(running) == 424
    row = await row_of(running)
    assert (row.state_reason, row.intent) == ("rotation_lost", None)


async def test_refusal_has_a_retry_time(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    await running.import_connection(tracker.grant())
    advance_clock(EXPIRED_S)
    tracker.response = GONE
    async with running.call_proxy("c1") as response:
        body = await response.json()
        assert response.status == 424
        assert int(response.headers["Retry-After"]) >= 30
        assert body["error"]["payload"]["retry_at"] > body["error"]["payload"]["failed_at"]


async def test_previous_refresh_token_is_tried_during_its_grace_period(
    tracker: Tracker, tmp_path: Path, advance_clock: Any
) -> None:
    entry = tracker_entry(tracker.url, refresh={"rotating": True, "reuse_grace_s": 600})
    write_entry(tmp_path, "tracker", entry)
    running = RunningGateway(tmp_path, document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"]))
    await running.start()
    try:
        await running.import_connection(tracker.grant())
        url = "/connections/c1?provider_config_key=tracker&force_refresh=true"
        await running.json("GET", url, expect=200)
        row = await row_of(running)
        assert row.previous is not None
        assert b"refresh-0" not in row.previous.ciphertext
        grant = tracker.grants[0]
        grant.refresh_token = "refresh-0"  # the provider lost its record of the rotation
        grant.spent.clear()
        await running.json("GET", url, expect=200)
        assert [sent["refresh_token"] for sent in tracker.token_requests] == ["refresh-0", "refresh-2", "refresh-0"]
        await running.runtime.store.prune(clock.now())
        assert (await row_of(running)).previous is not None
        advance_clock(601)
        await running.runtime.store.prune(clock.now())
        assert (await row_of(running)).previous is None
    finally:
        await running.stop()
