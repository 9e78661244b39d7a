"""The audit log in a real SQLite or PostgreSQL database: numbering, checkpoints, tampering by SQL, pruning, end users."""

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from gateway import clock
from gateway.records.audit import AuditAction, AuditActor, AuditEntry, AuditFilter, current_actor
from gateway.records.connection import EndUser
from gateway.records.operation import current_request_id
from gateway.store import Edit, Store
from gateway.store.audit.audit_chain import ChainVerdict, Checkpoint
from gateway.store.audit.audit_check import verify_chain
from gateway.vault import VaultError
from tests.gateway.store.conftest import KEY, NOW, REF, StoreOpener, new, sqlite_only

Begin = Callable[[Store], Any]


def entry(number: int = 0, **members: Any) -> AuditEntry:
    plain = AuditEntry(
        action=AuditAction.CREDENTIAL_READ,
        at=NOW + timedelta(minutes=number),
        actor=AuditActor("key", key_id=number % 3 + 1, name="agent", parents=(9,), address="192.0.2.7"),
        environment="dev",
        integration_id="jira",
        connection_id=f"u{number}",
        request_id=f"r{number}",
    )
    return replace(plain, **members)


async def fill_chain(store: Store, records: int = 12) -> None:
    await store.trail.write(*(entry(number) for number in range(1, records + 1)))
    await store.audit.append_to_chain()


async def sign_checkpoint(store: Store) -> Checkpoint:
    """Return a checkpoint of the whole chain. The chain includes the record of the checkpoint's key."""
    await store.audit.public_key(now=NOW)
    await store.audit.append_to_chain()
    signed = await store.audit.checkpoint(now=NOW)
    assert signed is not None
    return signed


async def verify_store(store: Store, *checkpoints: Checkpoint, key: str = "", own: bool = True) -> ChainVerdict:
    return await verify_chain(store.audit, checkpoints, [key or await store.audit.public_key(now=NOW)], with_stored=own)


async def run_sql(store: Store, statement: str) -> int:
    """Run the statement as an attacker who has the password of the database."""
    return (await store.transactions.write(lambda db: db.execute(text(statement)))).rowcount


async def test_a_record_has_a_position_in_the_chain_and_is_found_unchanged(store: Store) -> None:
    await fill_chain(store)
    found = await store.audit.find(AuditFilter(limit=5))
    assert [item.sequence for item in found] == [12, 11, 10, 9, 8]
    assert found[0].body == entry(12).body()
    members = found[0].as_json()
    assert members["actor"] == {"kind": "key", "key_id": 1, "name": "agent", "parents": [9]}
    assert (members["address"], members["request_id"], members["outcome"]) == ("192.0.2.7", "r12", "ok")


async def test_audit_records_are_filtered(store: Store) -> None:
    await fill_chain(store)
    await store.trail.write(entry(20, action=AuditAction.KEY_REVOKED, environment="prod", connection_id="", key_id=7))
    await store.audit.append_to_chain()
    for wanted, numbers in (
        ({"environment": "prod"}, [13]),
        ({"action": "key.revoked"}, [13]),
        ({"connection_id": "u4"}, [4]),
        ({"key_ids": frozenset({2}), "integration_id": "jira", "environment": "dev"}, [10, 7, 4, 1]),
        ({"since": NOW + timedelta(minutes=3), "until": NOW + timedelta(minutes=5)}, [4, 3]),
        ({"before": 3}, [2, 1]),
        ({"after": 11}, [13, 12]),
    ):
        found = await store.audit.find(AuditFilter(**wanted))  # type: ignore[arg-type]
        assert [item.sequence for item in found] == numbers, wanted
    pages = [page async for page in store.audit.pages(AuditFilter(environment="dev", limit=2))]
    assert [item.sequence for page in pages for item in page] == list(range(1, 13))


async def test_a_change_and_its_record_are_committed_together(store: Store) -> None:
    async def work(db: Any) -> None:
        await store.trail.record(db, entry())
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await store.transactions.write(work)
    assert await store.audit.count_waiting() == 0
    assert await store.audit.append_to_chain() == 0


async def test_record_has_actor_address_and_id_of_the_current_request(store: Store) -> None:
    current_actor.set(AuditActor("key", key_id=4, name="ci", address="198.51.100.3"))
    current_request_id.set("abc")
    await store.connections.put(new(), now=NOW)
    await store.audit.append_to_chain()
    (found,) = await store.audit.find(AuditFilter())
    members = found.as_json()
    assert (members["action"], members["actor"]["key_id"]) == ("connection.imported", 4)
    assert (members["address"], members["request_id"]) == ("198.51.100.3", "abc")
    assert members["object"] == {"connection": "u1", "integration": "jira"}


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_a_transaction_that_began_earlier_and_commits_later_is_not_skipped(store: Store) -> None:
    """The earlier transaction has the lower id, but its row is not visible yet when the later rows are numbered."""
    started, go_on = asyncio.Event(), asyncio.Event()

    async def record_and_wait(db: Any) -> None:
        await store.trail.record(db, entry(1))
        started.set()
        await go_on.wait()

    waiting = asyncio.create_task(store.transactions.write(record_and_wait))
    await started.wait()
    await store.trail.write(entry(2), entry(3))
    assert await store.audit.append_to_chain() == 2
    go_on.set()
    await waiting
    assert await store.audit.append_to_chain() == 1
    found = await store.audit.find(AuditFilter())
    assert [item.columns.connection_id for item in found] == ["u1", "u3", "u2"]
    verdict = await verify_store(store)
    assert verdict.ok, verdict.faults


async def test_two_nodes_write_one_chain(open_test_store: StoreOpener, store: Store) -> None:
    other = await open_test_store()
    nodes = (store, other)

    async def writing(node: Store, base: int) -> None:
        for number in range(30):
            await node.trail.write(entry(base + number))
            if number % 7 == 0:
                await node.audit.append_to_chain()

    await asyncio.gather(*(writing(node, 100 * (1 + n)) for n, node in enumerate(nodes)))
    await asyncio.gather(*(node.audit.append_to_chain() for node in nodes))
    last_checkpoint = await sign_checkpoint(other)
    found = await store.audit.find(AuditFilter(limit=1000, action="credential.read"))
    assert sorted(item.columns.connection_id for item in found) == sorted(
        f"u{b + n}" for b in (100, 200) for n in range(30)
    )
    verdict = await verify_store(store, last_checkpoint)
    assert verdict.ok, verdict.faults
    assert verdict.unproven == 0


AT = '"at":"2026-01-02T03:04:05+00:00"'
BY_HAND = [
    "no JSON",
    "{}",
    "[]",
    f'{{"action":1,{AT}}}',
    '{"action":"x","at":"2026-01-02T03:04:05"}',
    f'{{"action":"x",{AT},"actor":{{"key_id":true}}}}',
    f'{{"action":"x",{AT},"actor":{{"key_id":99999999999999999999}}}}',
    f'{{"action":"x",{AT},"environment":"\\u0000"}}',
    f'{{"action":"x",{AT},"end_user":"\\ud800"}}',
]


async def test_record_added_by_hand_is_found_and_blocks_nothing(store: Store) -> None:
    added = text("INSERT INTO audit_pending (body) VALUES (:body)")
    for body in BY_HAND:
        await store.transactions.write(lambda db, body=body: db.execute(added, {"body": body}))  # type: ignore[misc]
    await fill_chain(store, 2)
    verdict = await verify_store(store)
    assert verdict.last == len(BY_HAND) + 2
    assert {fault.sequence for fault in verdict.faults} == set(range(1, len(BY_HAND) + 1))
    found = await store.audit.find(AuditFilter(action="unreadable"))
    assert len(found) == len(BY_HAND)


TAMPERINGS = int(os.environ.get("GATEWAY_AUDIT_TAMPERINGS", "400")) // 20


def statements(chance: random.Random, last: int) -> tuple[str, str]:
    """Return a kind of tampering and its SQL statement. The hashes of the other records do not change."""
    at, other = chance.sample(range(1, last + 1), 2)
    kind = chance.choice(["edit", "column", "hash", "drop", "truncate", "swap", "copy"])
    return kind, {
        "edit": f"UPDATE audit_records SET body = replace(body, '192.0.2.7', '192.0.2.{chance.randrange(8, 99)}')"
        f" WHERE sequence = {at}",
        "column": f"UPDATE audit_records SET connection_id = 'another' WHERE sequence = {at}",
        "hash": f"UPDATE audit_records SET hash = '{chance.randbytes(32).hex()}' WHERE sequence = {at}",
        "drop": f"DELETE FROM audit_records WHERE sequence = {at}",
        "truncate": f"DELETE FROM audit_records WHERE sequence >= {at}",
        "swap": f"UPDATE audit_records SET body = (SELECT body FROM audit_records AS o WHERE o.sequence = {other})"
        f" WHERE sequence = {at}",
        "copy": "INSERT INTO audit_records (sequence, hash, at, environment, action, key_id, integration_id, connection_id,"
        f" end_user, body) SELECT {last} + 1, hash, at, environment, action, key_id, integration_id, connection_id, end_user,"
        f" body FROM audit_records WHERE sequence = {at}",
    }[kind]


async def test_tampering_by_sql_is_found(store: Store) -> None:
    await fill_chain(store)
    last_checkpoint = await sign_checkpoint(store)
    key, chance = await store.audit.public_key(now=NOW), random.Random(7)
    assert (await verify_store(store, last_checkpoint, key=key)).ok
    columns = "sequence, hash, at, environment, action, key_id, integration_id, connection_id, end_user, body"
    await run_sql(store, "CREATE TABLE kept AS SELECT * FROM audit_records")
    for _ in range(max(TAMPERINGS, 14)):
        kind, statement = statements(chance, last_checkpoint.sequence)
        if await run_sql(store, statement) == 0:
            continue
        same = await _changed_nothing(store)
        verdict = await verify_store(store, last_checkpoint, key=key)
        assert verdict.ok is same, (kind, statement)
        await run_sql(store, "DELETE FROM audit_records")
        await run_sql(store, f"INSERT INTO audit_records ({columns}) SELECT {columns} FROM kept")
    await run_sql(store, "DROP TABLE kept")


async def _changed_nothing(store: Store) -> bool:
    """Return whether the statement changed nothing, for example because no record has the address that it edits."""
    async with store.transactions.read() as db:
        query = "SELECT sequence, hash, at, connection_id, body FROM {} ORDER BY sequence"
        now, kept = [(await db.execute(text(query.format(name)))).all() for name in ("audit_records", "kept")]
    return list(now) == list(kept)


async def test_a_truncated_chain_is_detected_by_an_exported_checkpoint(
    store: Store,
) -> None:
    await fill_chain(store)
    last_checkpoint = await sign_checkpoint(store)
    await run_sql(store, "DELETE FROM audit_records WHERE sequence > 8")
    await run_sql(store, "DELETE FROM audit_checkpoints")
    await run_sql(
        store, "UPDATE audit_state SET sequence = 8, hash = (SELECT hash FROM audit_records WHERE sequence = 8)"
    )
    assert (await verify_store(store)).ok  # nothing in the store shows the tampering
    verdict = await verify_store(store, last_checkpoint)
    assert (verdict.faults[0].kind, verdict.faults[0].sequence) == ("truncated", 9)


async def test_a_tail_that_no_checkpoint_proves_is_counted(store: Store) -> None:
    await fill_chain(store)
    last_checkpoint = await sign_checkpoint(store)
    await store.trail.write(entry(50), entry(51))
    await store.audit.append_to_chain()
    await store.trail.write(entry(52))
    verdict = await verify_store(store, last_checkpoint)
    assert verdict.ok
    assert (verdict.last, verdict.proven_to, verdict.waiting_records, verdict.unproven) == (15, 13, 1, 3)


async def test_a_checkpoint_of_another_store_or_key_is_refused(store: Store) -> None:
    await fill_chain(store)
    last_checkpoint = await sign_checkpoint(store)
    (fault,) = (await verify_store(store, replace(last_checkpoint, store="else"))).faults
    assert (fault.kind, "another store" in fault.message) == ("checkpoint", True)
    former = last_checkpoint.public_key
    await store.audit.new_key(now=NOW)
    await store.audit.append_to_chain()
    assert not (
        await verify_store(store, last_checkpoint, own=False)
    ).ok  # a new key does not prove the signatures of the previous key
    assert (await verify_chain(store.audit, [last_checkpoint], [former])).ok


async def test_a_checkpoint_is_made_once_by_several_processes(open_test_store: StoreOpener, store: Store) -> None:
    other = await open_test_store()
    await fill_chain(store)
    await store.audit.public_key(now=NOW)
    await store.audit.append_to_chain()
    signed = await asyncio.gather(*(item.audit.checkpoint(now=NOW) for item in (store, other, store)))
    assert len([item for item in signed if item is not None]) == 1


async def test_the_signing_key_is_sealed_and_follows_the_master_key(open_test_store: StoreOpener, store: Store) -> None:
    await fill_chain(store)
    last_checkpoint = await sign_checkpoint(store)
    newer = os.urandom(32)
    both = await open_test_store(newer, KEY)
    await both.rotation.rotate(lambda *_: None)
    alone = await open_test_store(newer)
    assert await alone.audit.public_key(now=NOW) == last_checkpoint.public_key
    with pytest.raises(VaultError):
        await store.audit.public_key(now=NOW)  # `store` still has only the previous key
    await alone.audit.append_to_chain()
    assert (await verify_store(alone, last_checkpoint)).ok
    actions = {item.columns.action for item in await alone.audit.find(AuditFilter())}
    assert "encryption_keys.rotated" in actions


async def test_pruning_leaves_a_chain_that_can_be_verified(store: Store) -> None:
    await fill_chain(store)
    last_checkpoint = await sign_checkpoint(store)
    removed = await store.audit.prune(NOW + timedelta(minutes=6), now=NOW + timedelta(days=1))
    assert removed == 5
    later = await sign_checkpoint(store)
    verdict = await verify_store(store, last_checkpoint, later)
    assert verdict.ok, verdict.faults
    assert (verdict.first, verdict.proven_to, verdict.unproven) == (6, later.sequence, 0)
    assert await store.audit.prune(NOW + timedelta(minutes=6), now=NOW + timedelta(days=1)) == 0
    (record,) = await store.audit.find(AuditFilter(action="audit.pruned"))
    assert record.as_json()["detail"]["to_sequence"] == 5


async def test_records_left_by_an_interrupted_pruning_are_removed_later(store: Store) -> None:
    await fill_chain(store)
    await sign_checkpoint(store)
    await run_sql(store, "CREATE TABLE cut_short AS SELECT * FROM audit_records WHERE sequence <= 5")
    await store.audit.prune(NOW + timedelta(minutes=6), now=NOW)
    await run_sql(store, "INSERT INTO audit_records SELECT * FROM cut_short")
    await run_sql(store, "DROP TABLE cut_short")
    assert (await verify_store(store)).ok
    assert await store.audit.finish_pruning() == 5


async def test_removal_of_records_that_imitates_a_pruning_is_found(store: Store) -> None:
    """An attacker removes the first records and marks a real checkpoint as the new start. No record of a pruning
    explains it.
    """
    await fill_chain(store)
    last_checkpoint = await sign_checkpoint(store)
    await store.trail.write(entry(70))
    await store.audit.append_to_chain()
    await run_sql(store, f"DELETE FROM audit_records WHERE sequence <= {last_checkpoint.sequence}")
    await run_sql(store, f"UPDATE audit_checkpoints SET starts = true WHERE sequence = {last_checkpoint.sequence}")
    faults = (await verify_store(store, last_checkpoint)).faults
    assert any("no record of a pruning" in fault.message for fault in faults)


async def test_an_end_user_is_a_keyed_digest_that_identifies_nobody_once_forgotten(store: Store) -> None:
    user = EndUser(id="anna@example.com", email="anna@example.com")
    await store.connections.put(new(end_user=user), now=NOW)
    await store.connections.put(new(REF._replace(connection_id="u2"), end_user=user), now=NOW)
    await store.audit.append_to_chain()
    found = await store.audit.find(AuditFilter(environment="dev", end_user_id=user.id))
    assert len(found) == 2
    assert len({item.columns.end_user for item in found}) == 1
    assert all("anna" not in item.body for item in found)
    forgotten = AuditEntry.of(AuditAction.PERSON_FORGOTTEN, "dev", NOW)
    assert await store.trail.forget("dev", user.id, forgotten)
    assert not await store.trail.forget("dev", user.id, forgotten)
    assert await store.audit.find(AuditFilter(environment="dev", end_user_id=user.id)) == []
    await store.audit.append_to_chain()
    assert (await verify_store(store)).ok
    assert await _occurs_in_store(store, "anna") == 0


async def _occurs_in_store(store: Store, word: str) -> int:
    async with store.transactions.read() as db:
        counts = [
            (await db.execute(text(f"SELECT count(*) FROM {name} WHERE {column} LIKE '%{word}%'"))).scalar_one()
            for name, column in (("audit_records", "body"), ("audit_pending", "body"), ("audit_persons", "end_user_id"))
        ]
    return sum(counts)


async def test_an_end_user_is_forgotten_with_their_last_connection(store: Store) -> None:
    user, second = EndUser(id="ben"), REF._replace(connection_id="u2")
    for ref in (REF, second):
        await store.connections.put(new(ref, end_user=user), now=NOW)
    await store.connections.delete(REF, now=NOW)
    assert await _occurs_in_store(store, "ben") == 1
    await store.edits.edit(second, Edit(end_user=EndUser(id="carl")), now=NOW)
    assert await _occurs_in_store(store, "ben") == 0
    await store.connections.delete(second, now=NOW)
    assert await _occurs_in_store(store, "carl") == 0
    await store.audit.append_to_chain()
    found = await store.audit.find(AuditFilter())
    assert [item.columns.action for item in found] == [
        "connection.deleted",
        "connection.changed",
        "connection.deleted",
        "connection.imported",
        "connection.imported",
    ]
    assert all(item.columns.end_user for item in found)


async def test_an_end_user_is_forgotten_when_another_connects_in_their_place(store: Store) -> None:
    await store.connections.put(new(end_user=EndUser(id="ben")), now=NOW)
    await store.connections.put(new(), now=NOW)
    assert await _occurs_in_store(store, "ben") == 1, "an import without an end user keeps the present one"
    await store.connections.put(new(end_user=EndUser(id="carl")), now=NOW)
    assert (await _occurs_in_store(store, "ben"), await _occurs_in_store(store, "carl")) == (0, 1)


async def test_a_second_process_and_the_next_start_find_the_same_person(
    open_test_store: StoreOpener, store: Store
) -> None:
    other = await open_test_store()
    await asyncio.gather(
        *(
            node.connections.put(new(REF._replace(connection_id=f"u{n}"), end_user=EndUser(id="dora")), now=NOW)
            for n, node in enumerate((store, other, store, other))
        )
    )
    await store.audit.append_to_chain()
    found = await other.audit.find(AuditFilter(environment="dev", end_user_id="dora"))
    assert len(found) == 4


async def test_a_configuration_is_recorded_once_by_all_that_load_it(open_test_store: StoreOpener, store: Store) -> None:
    other = await open_test_store()
    made = AuditEntry.of(AuditAction.CONFIGURATION_LOADED, at=NOW)
    recorded = await asyncio.gather(*(node.audit.record_configuration("d1", made) for node in (store, other, store)))
    assert sorted(recorded) == [False, False, True]
    assert await store.audit.record_configuration("d2", made)


async def test_secrets_in_details_are_masked_and_long_ones_cut(store: Store) -> None:
    detail = {"client_secret": "s3cr3t-marker", "words": "Authorization: Bearer s3cr3t-marker", "long": "x" * 9000}
    await store.trail.write(entry(1, detail=detail), entry(2, detail={str(n): "y" * 400 for n in range(30)}))
    await store.audit.append_to_chain()
    second, first = await store.audit.find(AuditFilter())
    assert "s3cr3t-marker" not in first.body
    assert len(first.body) < 1500
    assert "too_long" in second.body


@sqlite_only
async def test_each_refresh_is_recorded_only_where_that_is_requested(store: Store) -> None:
    await refresh_connection(store, 1)
    store.trail.all_refreshes = True
    await refresh_connection(store, 2)
    await store.audit.append_to_chain()
    found = await store.audit.find(AuditFilter(action="connection.refreshed"))
    assert len(found) == 1


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_each_refresh_in_one_statement_is_recorded_too(store: Store) -> None:
    store.trail.all_refreshes = True
    for round_ in (1, 2, 3):
        await refresh_connection(store, round_)
    await store.audit.append_to_chain()
    found = await store.audit.find(AuditFilter(action="connection.refreshed"))
    assert len(found) == 3


async def refresh_connection(store: Store, round_: int) -> None:
    if await store.connections.get(REF) is None:
        await store.connections.put(new(), now=NOW)
    row = await store.connections.get(REF)
    assert row is not None
    owner = await store.holders.new_owner()
    assert await store.refreshes.lease_refresh(REF, owner=owner, ttl=timedelta(seconds=30), known_row=row, intent="d")
    saved = await store.refreshes.save_refreshed(
        REF,
        owner=owner,
        version=row.version,
        credential={"type": "API_KEY", "apiKey": f"k{round_}"},
        expires_at=None,
        now=clock.now(),
        known_row=row,
    )
    assert saved is not None


async def test_records_keep_the_time_of_the_store(store: Store) -> None:
    at = datetime(2026, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    await store.trail.write(entry(1, at=at))
    await store.audit.append_to_chain()
    (found,) = await store.audit.find(AuditFilter())
    assert found.columns.at == at
