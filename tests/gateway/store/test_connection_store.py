"""Connections are stored sealed and read back. Versions and leases decide which process may write next."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway import clock
from gateway.records.connection import ConnectionRef, EndUser, RefreshFailure
from gateway.store import Store, connection_store
from gateway.vault import VaultError
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new

TTL = timedelta(seconds=60)
GONE = -timedelta(seconds=1)  # a lease of this length has already expired
LATER = NOW + timedelta(seconds=5)
FAILURE = RefreshFailure("invalid_grant", "revoked", True, LATER, 1, retry_at=LATER + TTL)


async def test_stored_connection_is_returned_completely(store: Store) -> None:
    new_connection = new(
        credential={"type": "OAUTH2", "access_token": "at", "refresh_token": "rt"},
        expires_at=LATER,
        config={"cloudId": "c", "subdomain": "acme"},
        secret_config={"pin": "1234"},
        metadata={"a": {"b": [1, None]}},
        tags={"Plan": "Pro"},
        end_user=EndUser("e1", "a@b.example", "Ann", {"x": "y"}, "o1", "Org"),
        webhook_url_override="https://hook.example",
    )
    stored, created = await store.connections.put(new_connection, now=NOW)
    assert created
    assert stored == await store.connections.get(REF)
    assert store.vault.open_json(stored.credential) == new_connection.credential
    assert stored.secret_config is not None
    assert store.vault.open_json(stored.secret_config) == new_connection.secret_config
    assert (stored.version, stored.expires_at, stored.config) == (1, LATER, new_connection.config)
    assert (stored.metadata, stored.tags, stored.end_user) == (
        new_connection.metadata,
        {"plan": "Pro"},
        new_connection.end_user,
    )
    assert (stored.created_at, stored.updated_at, stored.last_refreshed_at) == (NOW, NOW, NOW)
    assert stored.webhook_url_override == "https://hook.example"


async def test_an_unknown_connection_is_none(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    for ref in (REF._replace(environment="prod"), REF._replace(integration_id="x"), REF._replace(connection_id="U1")):
        assert await store.connections.get(ref) is None


async def test_storing_again_replaces_the_credential_and_keeps_other_members(store: Store) -> None:
    first, _ = await store.connections.put(
        new(config={"a": 1}, secret_config={"pin": "1"}, metadata={"m": 1}, tags={"t": "1"}, end_user=EndUser("e")),
        now=NOW,
    )
    second, created = await store.connections.put(new(credential={"type": "API_KEY", "apiKey": "k2"}), now=LATER)
    assert not created
    assert (second.id, second.uid, second.version) == (first.id, first.uid, 2)
    assert (second.created_at, second.updated_at) == (NOW, LATER)
    assert (second.config, second.metadata, second.tags, second.end_user) == (
        {"a": 1},
        {"m": 1},
        {"t": "1"},
        EndUser("e"),
    )
    assert store.vault.open_json(second.credential)["apiKey"] == "k2"
    assert second.secret_config is not None
    assert store.vault.open_json(second.secret_config) == {"pin": "1"}


async def test_replayed_credential_does_not_open(store: Store) -> None:
    first, _ = await store.connections.put(new(), now=NOW)
    second, _ = await store.connections.put(new(), now=NOW)
    rolled_back = second.credential.__class__(
        first.credential.ciphertext, "dev", "connections", second.uid, "credential", 2
    )
    with pytest.raises(VaultError):
        store.vault.open_json(rolled_back)


async def test_concurrent_puts_of_one_connection_create_it_once(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store(), await open_test_store()]
    done = await asyncio.gather(*(stores[n % 2].connections.put(new(), now=NOW) for n in range(20)))
    assert sum(created for _, created in done) == 1
    assert sorted(connection.version for connection, _ in done) == list(range(1, 21))


async def test_row_ids_are_never_reused(store: Store) -> None:
    first, _ = await store.connections.put(new(tags={"a": "b"}), now=NOW)
    assert await store.connections.delete(REF, now=NOW)
    assert not await store.connections.delete(REF, now=NOW)
    assert await store.connections.get(REF) is None
    again, created = await store.connections.put(new(), now=NOW)
    assert created
    assert again.id > first.id
    assert again.uid != first.uid
    assert again.tags == {}


async def test_one_of_500_claims_succeeds(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store(), await open_test_store()]
    await stores[0].connections.put(new(), now=NOW)
    won = await asyncio.gather(
        *(stores[n % 2].refreshes.lease_refresh(REF, owner=f"o{n}", ttl=TTL) for n in range(500))
    )
    assert sum(won) == 1


async def test_a_lease_ends_when_its_holder_releases_it_or_its_time_is_over(store: Store) -> None:
    lease = store.refreshes.lease_refresh
    await store.connections.put(new(), now=NOW)
    assert await lease(REF, owner="a", ttl=TTL)
    await store.refreshes.release_lease(REF, owner="b")
    assert not await lease(REF, owner="b", ttl=TTL)
    await store.refreshes.release_lease(REF, owner="a")
    assert await lease(REF, owner="b", ttl=GONE)
    assert await lease(REF, owner="c", ttl=TTL)
    assert not await lease(ConnectionRef("dev", "jira", "nobody"), owner="a", ttl=TTL)


async def test_lease_on_a_replaced_row_is_refused(store: Store) -> None:
    lease = store.refreshes.lease_refresh
    seen, _ = await store.connections.put(new(), now=NOW)
    assert await lease(REF, owner="killed", ttl=GONE, known_row=seen, intent="digest")
    assert not await lease(REF, owner="b", ttl=TTL, known_row=seen, intent="digest"), (
        "the caller has not read the row's intent"
    )
    row = await store.connections.get(REF)
    assert row is not None
    assert row.mark == seen.mark
    assert await lease(REF, owner="b", ttl=TTL, known_row=row, intent="digest")
    assert not await lease(REF, owner="c", ttl=TTL, known_row=row, from_holder=True), (
        "another process holds the lease by now"
    )
    again, _ = await store.connections.put(new(), now=LATER)
    assert not await lease(REF, owner="c", ttl=TTL, known_row=row)
    assert await lease(REF, owner="c", ttl=TTL, known_row=again)


async def test_marks_show_which_rows_have_changed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_store, "IDS_PER_QUERY", 2)
    refs = [ConnectionRef("dev", "jira", f"m{n}") for n in range(5)]
    put = {ref: (await store.connections.put(new(ref=ref), now=NOW))[0] for ref in refs[:4]}
    marks = await store.connections.marks(refs)
    assert marks == {ref: row.mark for ref, row in put.items()}
    await store.connections.put(new(ref=refs[1]), now=LATER)
    await store.connections.delete(refs[2], now=LATER)
    moved = await store.connections.marks(refs)
    assert {ref for ref in refs if moved.get(ref) != marks.get(ref)} == {refs[1], refs[2]}
    assert await store.connections.marks([]) == {}


async def test_a_lease_counts_from_when_it_was_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.connections.put(new(), now=NOW)
    transactions = store.transactions
    write, began = transactions.write, []

    async def wait_then_write(work: Any, *, before: Any = None) -> Any:
        await asyncio.sleep(0.2)  # the write waits in a queue
        began.append(clock.now())
        return await write(work, before=before)

    monkeypatch.setattr(transactions, "write", wait_then_write)
    assert await store.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    row = await store.connections.get(REF)
    assert row is not None
    assert row.lease is not None
    assert row.lease.until >= began[0] + TTL - timedelta(milliseconds=100)


async def test_a_claim_does_not_depend_on_the_clock_of_a_node(
    store: Store, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.connections.put(new(), now=NOW)
    assert await store.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    monkeypatch.setattr(clock, "machine", lambda: datetime.now(UTC) + 10 * TTL)
    claimed = await store.refreshes.lease_refresh(REF, owner="b", ttl=TTL)
    assert claimed is (backend == "sqlite"), "with SQLite, the machine's clock is the database's clock"


async def test_a_lease_that_another_machine_left_is_claimed_only_some_time_after_its_end(store: Store) -> None:
    seen, _ = await store.connections.put(new(), now=NOW)
    claim = store.refreshes.lease_refresh
    assert await claim(REF, owner="a", ttl=-TTL / 2, known_row=seen, intent="digest")
    row = await store.connections.get(REF)
    assert not await claim(REF, owner="b", ttl=TTL, known_row=row, expired_for=TTL)
    assert await claim(REF, owner="b", ttl=TTL, known_row=row, expired_for=TTL / 4)


async def test_only_the_lease_of_the_dead_holder_is_claimed(store: Store) -> None:
    seen, _ = await store.connections.put(new(), now=NOW)
    claim = store.refreshes.lease_refresh
    assert await claim(REF, owner="dead", ttl=TTL, known_row=seen, intent="digest")
    row = await store.connections.get(REF)
    assert not await claim(REF, owner="b", ttl=TTL, known_row=row)
    assert await claim(REF, owner="b", ttl=TTL, known_row=row, from_holder=True)
    assert not await claim(REF, owner="c", ttl=TTL, known_row=row, from_holder=True)


async def test_lease_is_restored_to_its_former_holder(store: Store) -> None:
    seen, _ = await store.connections.put(new(), now=NOW)
    claim = store.refreshes.lease_refresh
    assert await claim(REF, owner="dead", ttl=TTL, known_row=seen, intent="digest")
    row = await store.connections.get(REF)
    assert row is not None
    assert await claim(REF, owner="b", ttl=TTL, known_row=row, from_holder=True, intent="digest")
    await store.refreshes.release_lease(REF, owner="b", keep_intent=True, former_lease=row.lease)
    after = await store.connections.get(REF)
    assert after is not None
    assert (after.lease, after.intent and after.intent.digest) == (row.lease, "digest")


async def test_failure_before_the_call_restores_the_former_lease(store: Store) -> None:
    seen, _ = await store.connections.put(new(), now=NOW)
    claim, fail = store.refreshes.lease_refresh, store.refreshes.record_failure
    assert await claim(REF, owner="dead", ttl=GONE, known_row=seen, intent="digest")
    row = await store.connections.get(REF)
    assert row is not None
    assert await claim(REF, owner="b", ttl=TTL, known_row=row, intent="digest")
    after = await fail(REF, owner="b", version=1, failure=FAILURE, keep_intent=True, former_lease=row.lease)
    assert after is not None
    assert (after.lease, after.intent is not None) == (row.lease, True)
    assert [item.ref for item in await store.refreshes.find_unsettled(limit=9)] == [REF]


async def test_a_refreshed_credential_is_the_next_version(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    await store.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    saved = await store.refreshes.save_refreshed(
        REF, owner="a", version=1, credential={"access_token": "at2"}, expires_at=LATER + TTL, now=LATER
    )
    assert saved is not None
    assert saved == await store.connections.get(REF)
    assert (saved.version, saved.expires_at, saved.last_refreshed_at) == (2, LATER + TTL, LATER)
    assert store.vault.open_json(saved.credential) == {"access_token": "at2"}
    assert await store.refreshes.lease_refresh(REF, owner="b", ttl=TTL), "the save ended the lease"


async def test_a_late_writer_is_fenced_off(store: Store) -> None:
    save = store.refreshes.save_refreshed
    await store.connections.put(new(), now=NOW)
    await store.refreshes.lease_refresh(REF, owner="slow", ttl=GONE)
    await store.refreshes.lease_refresh(REF, owner="quick", ttl=TTL)
    assert await save(REF, owner="slow", version=1, credential={"n": "slow"}, expires_at=None, now=LATER) is None
    assert await save(REF, owner="quick", version=1, credential={"n": "quick"}, expires_at=None, now=LATER)
    assert await save(REF, owner="quick", version=1, credential={"n": "late"}, expires_at=None, now=LATER) is None
    credential = await store.connections.get(REF)
    assert credential is not None
    assert store.vault.open_json(credential.credential) == {"n": "quick"}


async def test_import_fences_off_a_refresh_in_flight(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    await store.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    await store.connections.put(new(), now=NOW)
    save, fail = store.refreshes.save_refreshed, store.refreshes.record_failure
    assert await save(REF, owner="a", version=1, credential={}, expires_at=None, now=LATER) is None
    assert await fail(REF, owner="a", version=1, failure=FAILURE) is None


async def test_recreated_row_gets_no_data_of_its_predecessor(store: Store) -> None:
    former, _ = await store.connections.put(new(), now=NOW)
    await store.connections.delete(REF, now=NOW)
    await store.connections.put(new(), now=NOW)
    await store.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    save = store.refreshes.save_refreshed
    assert await save(REF, owner="a", version=1, credential={}, expires_at=None, now=NOW, known_row=former) is None


async def test_holder_with_an_expired_lease_can_save(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    await store.refreshes.lease_refresh(REF, owner="a", ttl=GONE)
    assert await store.refreshes.save_refreshed(
        REF, owner="a", version=1, credential={"n": 2}, expires_at=None, now=NOW
    ), "no other process wrote the row, so the rotated token must be saved"


async def test_a_failure_is_kept_until_the_next_credential(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    await store.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    failed = await store.refreshes.record_failure(REF, owner="a", version=1, failure=FAILURE)
    assert failed is not None
    assert (failed.failure, failed.version) == (FAILURE, 1)
    assert failed == await store.connections.get(REF)
    assert await store.refreshes.lease_refresh(REF, owner="b", ttl=TTL), "the save ended the lease"
    saved = await store.refreshes.save_refreshed(
        REF, owner="b", version=1, credential={"n": 2}, expires_at=None, now=LATER
    )
    assert saved is not None
    assert saved.failure is None


async def test_a_new_credential_clears_the_failure(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    await store.refreshes.lease_refresh(REF, owner="a", ttl=TTL)
    await store.refreshes.record_failure(REF, owner="a", version=1, failure=FAILURE)
    again, _ = await store.connections.put(new(), now=LATER)
    assert again.failure is None


async def test_read_is_recorded_without_a_new_version(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    await store.connections.touch_fetched(REF, now=LATER)
    seen = await store.connections.get(REF)
    assert seen is not None
    assert (seen.last_fetched_at, seen.updated_at, seen.version) == (LATER, NOW, 1)
