"""Other processes read all changes in order, and notice if they missed changes."""

import asyncio
from datetime import timedelta

import pytest

from gateway.records.connection import RefreshFailure
from gateway.records.states import State
from gateway.store import ChangesMissed, LogPosition, Store
from gateway.store.changes import MAX_OWN_CHANGES, MISSING_S, OwnChanges, missing_s
from tests.fakes.clock import Clock
from tests.fakes.patience import PATIENCE_S
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new

TTL = timedelta(seconds=60)
OTHER = REF._replace(connection_id="u2")


async def wait_for_change(store: Store) -> None:
    """Return when something has changed. Without a notification, this wait times out."""
    async with asyncio.timeout(PATIENCE_S):
        await store.changes.wait_for_change(10 * PATIENCE_S)


async def test_every_change_that_others_must_see_is_reported(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    at = await other_node.changes.log_end()
    failure = RefreshFailure("x", "y", False, NOW, 1)
    connections, leases = this_node.connections, this_node.refreshes

    async def ref_is_reported() -> bool:
        nonlocal at
        at, refs = await other_node.changes.read_since(at)
        return list(refs) == [REF]

    await connections.put(new(), now=NOW)
    assert await ref_is_reported()
    await leases.lease_refresh(REF, owner="a", ttl=TTL)
    await connections.touch_fetched(REF, now=NOW)
    assert not await ref_is_reported()
    await leases.save_refreshed(REF, owner="a", version=1, credential={}, expires_at=None, now=NOW)
    assert await ref_is_reported()
    await leases.lease_refresh(REF, owner="b", ttl=TTL)
    await leases.record_failure(REF, owner="b", version=2, failure=failure)
    assert await ref_is_reported()
    assert await leases.save_refreshed(REF, owner="b", version=2, credential={}, expires_at=None, now=NOW) is None
    assert not await ref_is_reported()
    await connections.delete(REF, now=NOW)
    assert await ref_is_reported()
    await connections.delete(REF, now=NOW)
    assert not await ref_is_reported()


async def test_a_connection_that_changed_often_is_named_once(store: Store) -> None:
    for ref in (REF, OTHER, REF):
        await store.connections.put(new(ref), now=NOW)
    at, refs = await store.changes.read_since(LogPosition())
    assert (at.last_id, list(refs)) == ((await store.changes.log_end()).last_id, [REF, OTHER])
    assert await store.changes.read_since(at) == (at, {})


async def test_a_process_knows_the_row_that_its_own_refresh_wrote(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    row, _ = await this_node.connections.put(new(), now=NOW)
    at = await this_node.changes.log_end()
    await this_node.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    saved = await this_node.refreshes.save_refreshed(
        REF, owner="a", version=1, credential={}, expires_at=None, now=NOW, known_row=row
    )
    assert saved is not None
    assert (await this_node.changes.read_since(at))[1] == {REF: saved.mark}
    assert (await other_node.changes.read_since(at))[1] == {REF: None}
    await other_node.connections.put(new(), now=NOW)
    last, response = await this_node.changes.read_since(at)
    assert response == {REF: None}, "another node has changed the row since"
    assert await this_node.changes.read_since(last) == (last, {})
    assert len(this_node.refreshes._own_changes) == 0, "the node's own marks are forgotten once the change log was read"


async def test_own_refresh_does_not_hide_an_unread_change(store: Store) -> None:
    at = await store.changes.log_end()
    row, _ = await store.connections.put(new(), now=NOW)
    await store.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    assert await store.refreshes.save_refreshed(
        REF, owner="a", version=1, credential={}, expires_at=None, now=NOW, known_row=row
    )
    assert (await store.changes.read_since(at))[1] == {REF: None}


async def test_refresh_that_changes_the_state_is_reported_like_other_changes(store: Store) -> None:
    row, _ = await store.connections.put(new(), now=NOW)
    await store.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    await store.refreshes.record_failure(REF, owner="a", version=1, failure=RefreshFailure("x", "y", False, NOW, 1))
    at = await store.changes.log_end()
    await store.refreshes.lease_refresh(REF, owner="b", ttl=TTL)
    saved = await store.refreshes.save_refreshed(
        REF, owner="b", version=1, credential={}, expires_at=None, now=NOW, known_row=row
    )
    assert saved is not None
    assert (saved.state, saved.failure) == (State.ACTIVE, None)
    assert [item.state for item in await store.history.changes_of(row.id)][-1] is State.ACTIVE
    assert (await store.changes.read_since(at))[1] == {REF: None}


def test_a_skipped_change_id_is_missing_until_it_is_read() -> None:
    at = LogPosition(4).read([6, 8])
    assert (at.last_id, set(at.missing)) == (8, {5, 7})
    assert set(at.read([5, 9]).missing) == {7}


def test_a_missing_change_id_is_given_up_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("gateway.clock.monotonic", clock.monotonic)
    at = LogPosition(4).read([6])
    clock.ahead_s += MISSING_S / 2
    at = at.read([8])
    assert set(at.missing) == {5, 7}
    clock.ahead_s += MISSING_S / 2
    assert set(at.read([9]).missing) == {7}


def test_a_missing_id_is_requested_as_long_as_its_transaction_can_still_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("gateway.clock.monotonic", clock.monotonic)
    # store.pool.statement_s at its maximum, for the insert, for the idle time after the insert, and for the commit
    slowest_s = 600
    at = LogPosition(4).read([6])
    clock.ahead_s += 3 * slowest_s
    assert set(at.read([7], missing_s(slowest_s)).missing) == {5}
    assert missing_s(5) == MISSING_S


def test_own_changes_are_bounded_without_a_reader() -> None:
    own = OwnChanges()
    for change_id in range(MAX_OWN_CHANGES + 5):
        own.record(change_id, (1, NOW))
    assert len(own) == MAX_OWN_CHANGES


async def test_the_version_changes_when_anyone_commits_and_not_otherwise(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    before = await other_node.changes.version()
    await other_node.connections.get(REF)
    assert await other_node.changes.version() == before
    await this_node.connections.put(new(), now=NOW)
    after = await other_node.changes.version()
    assert after != before
    assert await other_node.changes.version() == after
    await other_node.connections.put(new(), now=NOW)
    assert await other_node.changes.version() != after


async def test_change_of_another_process_wakes_the_reader(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    await other_node.changes.version()
    waiting = asyncio.create_task(wait_for_change(other_node))
    await this_node.connections.put(new(), now=NOW)
    assert (await asyncio.wait([waiting], timeout=PATIENCE_S))[0] == {waiting}
    waiting.result()


async def test_a_reader_that_returns_after_the_log_was_pruned_is_notified(store: Store) -> None:
    for day in range(4):
        await store.connections.put(new(), now=NOW + timedelta(days=day))
    await store.prune(NOW + timedelta(days=3, hours=1))
    assert await store.changes.read_since(LogPosition(3)) == (LogPosition(4), {REF: None})
    with pytest.raises(ChangesMissed):
        await store.changes.read_since(LogPosition(2))
    assert (await store.changes.log_end()).last_id == 4


async def test_the_last_change_is_never_pruned(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    await store.prune(NOW + timedelta(days=99))
    assert (await store.changes.log_end()).last_id == 1
    assert await store.changes.read_since(LogPosition(1)) == (LogPosition(1), {})
