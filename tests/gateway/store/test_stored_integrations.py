"""Integrations created through the API: secrets are sealed to their row, updates use optimistic locking.

An integration can be deleted only if it has no connections.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest
from sqlalchemy import select, update

from gateway.errors import NotFound
from gateway.records.connection import ConnectionRef, ImportedHistory
from gateway.records.integration import Integration
from gateway.secret import Secret
from gateway.store import Store
from gateway.store.tables import integrations
from gateway.vault import VaultError
from tests.fakes.postgres import waiting_for_lock
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new

LATER = NOW + timedelta(seconds=5)
ONE = Integration(
    environment="dev",
    integration_id="jira",
    provider="jira",
    display_name="Mine",
    client_id="id",
    client_secret=Secret("client-secret"),
    webhook_secret=Secret("hook"),
    scopes=("a", "b"),
    forward_webhooks=False,
    custom=(("team", "red"),),
)


async def add_integration(store: Store, integration: Integration = ONE) -> Integration:
    stored = await store.integrations.add(integration, now=NOW)
    assert stored is not None
    return stored


async def test_added_integration_is_returned_completely_to_any_process(
    store: Store, open_test_store: StoreOpener
) -> None:
    stored = await add_integration(store)
    assert replace(stored, managed_row=None) == ONE
    other = await open_test_store()
    assert await other.integrations.get("dev", "jira") == stored
    assert await other.integrations.all() == [stored]
    assert await other.integrations.get("prod", "jira") is None


async def test_integration_key_is_unique(store: Store) -> None:
    await add_integration(store)
    assert await store.integrations.add(replace(ONE, provider="other"), now=LATER) is None
    assert await store.integrations.add(replace(ONE, environment="prod"), now=LATER) is not None


async def test_a_rename_to_a_key_that_was_just_taken_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process takes the key between the check and the write."""

    async def not_refused(*_: object) -> bool:
        return False

    stored = await add_integration(store)
    assert await store.integrations.add(replace(ONE, integration_id="taken"), now=NOW) is not None
    monkeypatch.setattr("gateway.store.stored_integrations._is_rename_refused", not_refused)
    assert await store.integrations.change(stored, replace(stored, integration_id="taken"), now=LATER) is None
    assert await store.integrations.get("dev", "jira") == stored


async def test_the_second_of_two_changes_to_the_same_integration_is_refused(store: Store) -> None:
    stored = await add_integration(store)
    first = await store.integrations.change(stored, replace(stored, display_name="First"), now=LATER)
    assert first is not None
    assert first.managed_row is not None
    assert (first.managed_row.version, first.managed_row.created_at, first.managed_row.updated_at) == (2, NOW, LATER)
    assert await store.integrations.change(stored, replace(stored, display_name="Second"), now=LATER) is None
    assert await store.integrations.get("dev", "jira") == first


async def test_a_rename_keeps_the_row_and_its_secrets(store: Store) -> None:
    stored = await add_integration(store)
    await add_integration(store, replace(ONE, integration_id="taken"))
    assert await store.integrations.change(stored, replace(stored, integration_id="taken"), now=LATER) is None
    moved = await store.integrations.change(stored, replace(stored, integration_id="moved"), now=LATER)
    assert moved is not None
    assert await store.integrations.get("dev", "jira") is None
    assert await store.integrations.get("dev", "moved") == moved
    assert moved.client_secret == Secret("client-secret")


async def test_integration_with_connections_is_neither_renamed_nor_deleted(store: Store) -> None:
    stored = await add_integration(store)
    ref = ConnectionRef("dev", "jira", "u1")
    await store.connections.put(new(ref), now=NOW)
    assert await store.integrations.has_connections("dev", "jira")
    assert await store.integrations.change(stored, replace(stored, integration_id="moved"), now=LATER) is None
    assert await store.integrations.begin_deletion(stored, now=LATER)
    assert not await store.integrations.begin_deletion(stored, now=LATER)
    assert not await store.integrations.delete_without_connections(stored)
    assert await store.integrations.get("dev", "jira") is None
    assert await store.integrations.all() == []
    assert await store.integrations.list_ending() == [stored]
    assert await store.integrations.add(ONE, now=LATER) is None
    await store.connections.delete(ref, now=LATER)
    assert await store.integrations.delete_without_connections(stored)
    assert await store.integrations.list_ending() == []
    await add_integration(store)


async def test_integration_change_is_reported_without_a_connection(store: Store) -> None:
    last = await store.changes.log_end()

    async def read_changes() -> list[ConnectionRef]:
        nonlocal last
        last, refs = await store.changes.read_since(last)
        return list(refs)

    stored = await add_integration(store)
    assert await read_changes() == [ConnectionRef("dev", "jira", "")]
    moved = await store.integrations.change(stored, replace(stored, integration_id="moved"), now=LATER)
    assert await read_changes() == [ConnectionRef("dev", "jira", ""), ConnectionRef("dev", "moved", "")]
    assert moved is not None
    await store.integrations.begin_deletion(moved, now=LATER)
    assert await read_changes() == [ConnectionRef("dev", "moved", "")]


async def test_secrets_open_in_their_own_row_only(store: Store) -> None:
    await add_integration(store)
    await add_integration(store, replace(ONE, integration_id="other", client_secret=Secret("another")))

    async def swap(db: object) -> None:
        await db.execute(  # type: ignore[attr-defined]
            update(integrations)
            .where(integrations.c.integration_id == "jira")
            .values(
                secrets=select(integrations.c.secrets).where(integrations.c.integration_id == "other").scalar_subquery()
            )
        )

    await store.transactions.write(swap)
    with pytest.raises(VaultError):
        await store.integrations.get("dev", "jira")
    assert [item.integration_id for item in await store.integrations.all()] == ["other"]


async def test_two_processes_that_add_one_key_at_the_same_time_create_one_key(
    store: Store, open_test_store: StoreOpener
) -> None:
    other = await open_test_store()
    made = await asyncio.gather(*(item.integrations.add(ONE, now=NOW) for item in (store, other)))
    assert sum(item is not None for item in made) == 1


async def test_no_connection_is_stored_once_its_integration_is_being_deleted_or_was_renamed(store: Store) -> None:
    stored = await add_integration(store)
    assert stored.managed_row is not None
    late = new(integration_uid=stored.managed_row.uid)
    renamed = await store.integrations.change(stored, replace(stored, integration_id="other"), now=LATER)
    assert renamed is not None
    with pytest.raises(NotFound, match="'jira' was deleted or renamed"):
        await store.connections.put(late, now=LATER)
    late = new(REF._replace(integration_id="other"), integration_uid=stored.managed_row.uid)
    await store.connections.put(late, now=LATER)
    await store.integrations.begin_deletion(renamed, now=LATER)
    with pytest.raises(NotFound):
        await store.connections.put(late, now=LATER)
    assert not await store.integrations.delete_without_connections(renamed)
    assert await store.connections.delete(late.ref, now=LATER)
    assert await store.integrations.delete_without_connections(renamed)
    with pytest.raises(NotFound):
        await store.connections.put_moved(late, ImportedHistory(), replaces=False, now=LATER)
    assert await store.connections.get(late.ref) is None


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
@pytest.mark.parametrize("action", ["delete", "rename"])
async def test_a_connection_that_is_being_stored_keeps_its_integration(store: Store, url: str, action: str) -> None:
    stored = await add_integration(store)
    assert stored.managed_row is not None
    other = await asyncpg.connect(url)
    async with other.transaction():
        await other.execute("LOCK TABLE connections IN SHARE MODE")  # nobody else can write to the table
        storing = asyncio.create_task(store.connections.put(new(integration_uid=stored.managed_row.uid), now=LATER))
        await waiting_for_lock(url)
        renamed = replace(stored, integration_id="other")
        if action == "delete":
            await store.integrations.begin_deletion(stored, now=LATER)
            ending: asyncio.Task[object] = asyncio.create_task(store.integrations.delete_without_connections(stored))
        else:
            ending = asyncio.create_task(store.integrations.change(stored, renamed, now=LATER))
        await waiting_for_lock(url, 2)
    assert (await storing)[1] is True
    assert not await ending
    await other.close()
