"""Claiming and saving a refresh needs few statements, and never seals with a data key that was replaced."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from gateway.records.connection import Connection, RefreshFailure
from gateway.store import Store
from gateway.store.transactions import CompiledStatement
from gateway.vault.seal import KEY_ID
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new

TTL = timedelta(seconds=60)


@pytest.fixture
async def statements(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[str]]:
    """Yield a list that grows with each statement, through SQLAlchemy or without it."""
    sent: list[str] = []
    bind = CompiledStatement.bind

    def note(_db: object, _cursor: object, statement: str, *_rest: object) -> None:
        if "pg_notify" not in statement:  # this statement runs after the commit, and concurrent commits share it
            sent.append(statement)

    def note_bound(compiled: CompiledStatement, parameters: Any) -> Any:
        bound = bind(compiled, parameters)
        sent.append(bound[0])
        return bound

    monkeypatch.setattr(CompiledStatement, "bind", note_bound)
    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


async def claim_refresh(store: Store, row: Connection, owner: str) -> bool:
    return await store.refreshes.lease_refresh(
        REF, owner=owner, ttl=TTL, known_row=row, intent=f"digest of {row.version}"
    )


async def save_refreshed(store: Store, row: Connection, owner: str) -> Connection | None:
    return await store.refreshes.save_refreshed(
        REF,
        owner=owner,
        version=row.version,
        credential={"n": row.version + 1},
        expires_at=None,
        now=NOW,
        previous=f"token {row.version}",
        previous_until=NOW + TTL,
        known_row=row,
    )


async def claim_and_save(store: Store, row: Connection, owner: str = "a") -> Connection:
    assert await claim_refresh(store, row, owner)
    after = await save_refreshed(store, row, owner)
    assert after is not None
    assert after == await store.connections.get(REF)
    assert store.vault.open_json(after.credential) == {"n": row.version + 1}
    assert (after.lease, after.intent, after.version) == (None, None, row.version + 1)
    return after


async def test_claim_and_save_are_one_statement_each_and_on_sqlite_one_more_for_the_change_log(
    store: Store, backend: str, statements: list[str]
) -> None:
    row, _ = await store.connections.put(new(), now=NOW)
    statements.clear()
    await claim_refresh(store, row, "b")
    await save_refreshed(store, row, "b")
    assert len(statements) == {"sqlite": 3, "postgresql": 2}[backend], statements


async def test_others_see_a_refresh_in_the_change_log(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    row, _ = await this_node.connections.put(new(), now=NOW)
    row = await claim_and_save(this_node, row)
    position = await other_node.changes.log_end()
    row = await claim_and_save(this_node, row, "b")
    _, changed = await other_node.changes.read_since(position)
    assert list(changed) == [REF]
    _, own = await this_node.changes.read_since(position)
    assert own == {REF: row.mark}, "the node need not read back its own refresh"


async def test_fenced_off_write_changes_nothing(store: Store) -> None:
    row, _ = await store.connections.put(new(), now=NOW)
    row = await claim_and_save(store, row)
    assert await claim_refresh(store, row, "slow")
    assert not await claim_refresh(store, row, "late"), "another process holds the lease"
    held = await store.connections.get(REF)
    assert held is not None
    assert await store.refreshes.lease_refresh(
        REF, owner="quick", ttl=TTL, known_row=held, intent="digest", from_holder=True
    )
    assert await save_refreshed(store, row, "slow") is None
    after = await store.connections.get(REF)
    assert after is not None
    assert (after.version, after.lease and after.lease.owner) == (row.version, "quick")


async def test_a_refresh_keeps_an_edit_made_after_the_claim(store: Store) -> None:
    row, _ = await store.connections.put(new(), now=NOW)
    row = await claim_and_save(store, row)
    assert await claim_refresh(store, row, "b")
    await store.edits.set_metadata([REF], {"team": "b"}, merge=False, now=NOW + TTL)
    after = await save_refreshed(store, row, "b")
    assert after is not None
    assert after == await store.connections.get(REF)
    assert (after.version, after.metadata) == (row.version + 1, {"team": "b"})


async def test_a_refresh_is_sealed_by_the_newest_data_key(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    row, _ = await this_node.connections.put(new(), now=NOW)
    row = await claim_and_save(this_node, row)
    assert await claim_refresh(this_node, row, "b")
    # another process creates new data keys at the same time
    await other_node.rotation.rotate(lambda _done, _all: None, fresh=True)
    newest = other_node.vault.sealing_key("dev")
    after = await save_refreshed(this_node, row, "b")
    assert after is not None
    assert newest is not None
    assert after.credential.ciphertext[KEY_ID].hex() == newest.id
    await claim_and_save(this_node, after, "c")


async def test_unfinished_refresh_comes_before_losses_that_are_reported(store: Store) -> None:
    """A reported loss stays until the end user connects again, so many of them must not hide an unfinished refresh."""
    lost, _ = await store.connections.put(new(), now=NOW)
    assert await store.refreshes.lease_refresh(REF, owner="lost", ttl=timedelta(0), known_row=lost, intent="digest")
    row = await store.connections.get(REF)
    assert row is not None
    failure = RefreshFailure("rotation_lost", "lost", True, NOW, 1)
    reported = store.refreshes.record_failure
    assert (
        await reported(REF, owner="lost", version=1, failure=failure, keep_intent=True, former_lease=row.lease)
        is not None
    )
    ref = REF._replace(connection_id="c2")
    seen, _ = await store.connections.put(new(ref), now=NOW)
    assert await store.refreshes.lease_refresh(ref, owner="b", ttl=TTL, known_row=seen, intent="digest")
    assert [item.ref for item in await store.refreshes.find_unsettled(limit=1)] == [ref]
    assert [item.ref for item in await store.refreshes.find_unsettled(limit=9)] == [ref, REF]
