"""Imported connections are stored with their history. An import sends no events."""

from datetime import timedelta

from gateway.records.connection import MOVED_IN, ImportedHistory, Lifespan, RefreshFailure
from gateway.records.states import State
from gateway.store import Store
from tests.gateway.store.conftest import NOW, REF, new

EARLIER = NOW - timedelta(days=30)


async def test_import_keeps_dates_state_and_failure_and_the_history_begins_with_the_move(store: Store) -> None:
    failure = RefreshFailure("invalid_grant", "gone", True, EARLIER, 2)
    life = Lifespan(NOW + timedelta(days=5), None)
    past = ImportedHistory(
        created_at=EARLIER,
        granted_at=EARLIER,
        state=State.NEEDS_REAUTH,
        state_reason="invalid_grant",
        state_since=EARLIER,
        failure=failure,
        life=life,
    )
    arrived = await store.connections.put_moved(new(REF), past, replaces=False, now=NOW)
    assert arrived is not None
    row, created = arrived
    assert created
    assert (row.created_at, row.granted_at, row.state_since) == (EARLIER, EARLIER, EARLIER)
    assert (row.state, row.state_reason, row.failure, row.life) == (State.NEEDS_REAUTH, "invalid_grant", failure, life)
    assert [(item.at, item.state, item.reason) for item in await store.history.changes_of(row.id)] == [
        (NOW, State.NEEDS_REAUTH, MOVED_IN)
    ]


async def test_connection_imported_without_a_history_is_active_since_the_import(store: Store) -> None:
    arrived = await store.connections.put_moved(new(REF), ImportedHistory(), replaces=False, now=NOW)
    assert arrived is not None
    assert (arrived[0].state, arrived[0].state_reason, arrived[0].created_at) == (State.ACTIVE, MOVED_IN, NOW)


async def test_existing_connection_is_kept_unless_replacement_is_requested(store: Store) -> None:
    before, _ = await store.connections.put(new(REF), now=EARLIER)
    assert await store.connections.put_moved(new(REF), ImportedHistory(), replaces=False, now=NOW) is None
    assert await store.connections.get(REF) == before
    replaced = await store.connections.put_moved(new(REF), ImportedHistory(), replaces=True, now=NOW)
    assert replaced is not None
    assert (replaced[1], replaced[0].version) == (False, before.version + 1)


async def test_import_sends_no_event(store: Store) -> None:
    result = []

    def targets(environment: str) -> tuple[str, ...]:
        result.append(environment)
        return ("primary",)

    store.outbox.targets_of = targets
    await store.connections.put_moved(new(REF), ImportedHistory(), replaces=False, now=NOW)
    assert result == []
    await store.connections.put(new(REF), now=NOW)
    assert result == ["dev"]
