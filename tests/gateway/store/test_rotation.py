"""A rotation seals everything again with another master key during reads and writes. Nothing is lost."""

import asyncio
import itertools
import os
import sys
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.errors import Unavailable
from gateway.records.audit import AuditAction, AuditFilter
from gateway.records.connecting import ConnectSession, SessionTerms
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.integration import Integration
from gateway.records.provider_call import ProviderCall, Reply
from gateway.secret import Secret
from gateway.store import Store, StoreRefused, rotation
from gateway.store import rotation as response_keys
from gateway.store.connection_rows import SealedRows
from gateway.store.preflight_checks import SEALED
from tests.fakes.journal import JournalFile
from tests.gateway.store.conftest import KEY, NOW, REF, StoreOpener, new, sqlite_only
from tests.gateway.store.test_pending_authorizations import flow

NEXT = os.urandom(32)
DIGEST = "ab" * 32
TTL = timedelta(seconds=30)
TERMS = SessionTerms(session_digest=DIGEST, code_challenge="c" * 43)
MADE: dict[str, Any] = {"environment": "dev", "integration_id": "made", "provider": "jira"}
BATCH = 8


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches so small that a few rows need several."""
    monkeypatch.setattr(rotation, "BATCH", BATCH)


def ignore_progress(_done: int, _total: int) -> None:
    pass


def nth_ref(n: int, environment: str = "dev") -> ConnectionRef:
    return REF._replace(connection_id=f"c{n}", environment=environment)


async def fill(store: Store, count: int) -> None:
    """Store a value in every sealed column: connections in two environments, one of them refreshed, a session, a flow …"""
    for n in range(count):
        ref = nth_ref(n, ("dev", "prod")[n % 2])
        await store.connections.put(new(ref, credential={"type": "API_KEY", "apiKey": f"k{n}"}), now=NOW)
    await store.connections.put(new(nth_ref(0), secret_config={"pin": "1"}), now=NOW)
    assert await store.refreshes.lease_refresh(nth_ref(0), owner="o", ttl=TTL)
    saved = await store.refreshes.save_refreshed(
        nth_ref(0),
        owner="o",
        version=2,
        credential={"type": "API_KEY", "apiKey": "k0"},
        expires_at=None,
        now=NOW,
        previous="old-refresh",
        previous_until=NOW + TTL,
    )
    assert saved
    session = ConnectSession(
        digest=DIGEST,
        environment="dev",
        expires_at=NOW + TTL,
        end_user=None,
        tags={},
        allowed_integrations=(),
        defaults={"jira": {"x": "y"}},
        overrides={},
        webhook_url_override=None,
        connection_id=None,
        integration_id=None,
    )
    await store.sessions.add(session)
    await store.flows.add(flow())
    await store.pending.add(new(nth_ref(0), secret_config={"pin": "2"}), TERMS, expires_at=NOW + TTL, reconnects=True)
    made = await store.integrations.add(Integration(**MADE, client_secret=Secret("s3cret")), now=NOW)
    assert made is not None
    assert await store.signing_keys.ensure("dev", lambda: Secret("whsec_x"), now=NOW)
    store.outbox.targets_of = lambda _: ("https://app.example.com/events",)
    assert await store.webhooks.queue_webhook(made, {"body": "hello"}, now=NOW, max_waiting=9, max_waiting_bytes=9) == 0
    store.outbox.targets_of = lambda _: ()


async def stored_row(store: Store, ref: ConnectionRef) -> Connection:
    found = await store.connections.get(ref)
    assert found is not None
    return found


async def key_of(store: Store, ref: ConnectionRef) -> Any:
    return store.open((await stored_row(store, ref)).credential)["apiKey"]


async def test_every_value_is_decrypted_with_only_the_new_key(open_test_store: StoreOpener) -> None:
    before = await open_test_store()
    await fill(before, BATCH + 7)
    await before.close()
    rotated = await open_test_store(NEXT, KEY)
    counted = await rotated.rotation.counts()
    assert counted.total == BATCH + 7 + 8
    assert {name for key in counted.data_keys for name in key.values} == {column.name for column in SEALED}
    steps: list[tuple[int, int]] = []
    done = await rotated.rotation.rotate(lambda *step: steps.append(step))
    assert (done.sealed, done.left, done.new_keys, done.removed_keys) == (counted.total, 0, 2, 2)
    assert steps[0] == (0, counted.total)
    assert steps[-1] == (counted.total, counted.total)
    assert await rotated.rotation.verify(ignore_progress) == []
    await rotated.close()
    after = await open_test_store(NEXT)  # the old key is removed from the list
    for n in range(1, BATCH + 7):
        assert await key_of(after, nth_ref(n, ("dev", "prod")[n % 2])) == f"k{n}"
    renewed = await stored_row(after, nth_ref(0))
    assert after.open(renewed.secret_config) == {"pin": "1"}
    assert after.open(renewed.previous) == {"refresh_token": "old-refresh"}
    session = await after.sessions.get(DIGEST, now=NOW)
    assert session is not None
    assert session.defaults == {"jira": {"x": "y"}}
    (pending,) = await after.pending.find_by_session(DIGEST, now=NOW)
    assert pending.new == new(nth_ref(0), secret_config={"pin": "2"})
    taken = await after.flows.consume(flow().state_digest, now=NOW)
    assert taken is not None
    assert after.open(taken.details) == flow().details.as_json()
    with pytest.raises(StoreRefused):
        await open_test_store(KEY)


async def test_second_rotation_does_nothing_unless_fresh_keys_are_requested(open_test_store: StoreOpener) -> None:
    store = await open_test_store()
    await fill(store, 3)
    idle = await store.rotation.rotate(ignore_progress)
    assert (idle.sealed, idle.new_keys, idle.removed_keys, idle.left) == (0, 0, 0, 0)
    keys_before = {key.id for key in (await store.rotation.counts()).data_keys}
    again = await store.rotation.rotate(ignore_progress, fresh=True)
    assert (again.sealed, again.new_keys, again.removed_keys, again.left) == (11, 2, 2, 0)
    assert not keys_before & {key.id for key in (await store.rotation.counts()).data_keys}


async def test_rewrapping_changes_no_value_and_releases_the_old_key(open_test_store: StoreOpener) -> None:
    store = await open_test_store(KEY)
    await fill(store, 3)
    sealed = (await stored_row(store, nth_ref(1, "prod"))).credential.ciphertext
    changing = await open_test_store(NEXT, KEY)
    assert await changing.rotation.wrap_again() == 2
    assert await changing.rotation.wrap_again() == 0
    after = await open_test_store(NEXT)
    assert (await stored_row(after, nth_ref(1, "prod"))).credential.ciphertext == sealed
    assert await key_of(after, nth_ref(1, "prod")) == "k1"


async def test_open_store_works_during_a_rotation(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A rotation pauses for other processes. The pauses would take most of the test's time.
    monkeypatch.setattr("gateway.store.rotation.MAX_PAUSE_S", 0.02)
    node, operator = await open_test_store(NEXT, KEY), await open_test_store(NEXT, KEY)
    await fill(node, 4)
    going = True

    async def use(worker: int) -> int:
        turns = 0
        while going:
            ref = nth_ref(100 + worker)
            await node.connections.put(new(ref, credential={"apiKey": f"{worker}/{turns}"}), now=NOW)
            assert await key_of(node, ref) == f"{worker}/{turns}"
            assert await key_of(node, nth_ref(turns % 2 * 2)) == f"k{turns % 2 * 2}"
            turns += 1
            await asyncio.sleep(0.05)  # SQLite's lock would hardly ever be free for the rotation otherwise
        return turns

    workers = [asyncio.create_task(use(n)) for n in range(4)]
    try:
        for _ in range(2):
            done = await operator.rotation.rotate(ignore_progress, fresh=True)
            assert (done.left, done.damaged) == (0, [])
    finally:
        going = False
        turns = await asyncio.gather(*workers)
    assert min(turns) > 1
    assert await operator.rotation.verify(ignore_progress) == []
    fresh = await open_test_store(NEXT, KEY)
    for n, count in enumerate(turns):
        found = await stored_row(fresh, nth_ref(100 + n))
        assert fresh.open(found.credential)["apiKey"] == f"{n}/{count - 1}"
        assert found.version == count


async def test_rotation_completes_while_the_database_is_busy(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.rotation.NEXT_PASS_S", 0)
    store = await open_test_store()
    await fill(store, 2)
    write, waits = store.transactions.write, itertools.cycle((True, False))

    async def locked_each_first_time(work: Any, **options: Any) -> Any:
        if next(waits):
            raise Unavailable("store_unavailable", "locked by another process")
        return await write(work, **options)

    monkeypatch.setattr(store.transactions, "write", locked_each_first_time)
    done = await store.rotation.rotate(ignore_progress, fresh=True)
    assert (done.left, done.damaged) == (0, [])
    monkeypatch.undo()
    await store.audit.append_to_chain()
    assert len(await store.audit.find(AuditFilter(action=AuditAction.ENCRYPTION_KEYS_ROTATED.value))) == 1


async def test_value_sealed_during_a_key_change_is_not_lost(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, operator = await open_test_store(NEXT, KEY), await open_test_store(NEXT, KEY)
    await fill(node, 2)
    sealed, go_on = asyncio.Event(), asyncio.Event()
    seal = SealedRows.seal

    def record_and_seal(*args: Any) -> bytes:
        sealed.set()
        return seal(*args)

    monkeypatch.setattr(SealedRows, "seal", record_and_seal)
    begin = node.transactions.begin

    async def write_and_wait(work: Any) -> Any:
        async def held(db: AsyncConnection) -> Any:
            done = await work(db)
            if sealed.is_set():
                await go_on.wait()
            return done

        return await begin(held)

    node.transactions.begin = write_and_wait  # type: ignore[method-assign]
    writing = asyncio.create_task(node.connections.put(new(nth_ref(7), credential={"apiKey": "late"}), now=NOW))
    await sealed.wait()
    rotating = asyncio.create_task(operator.rotation.rotate(ignore_progress, fresh=True))
    done, _ = await asyncio.wait({rotating}, timeout=0.3)
    assert not done, (
        "the rotation must not count a key's values before the transaction that seals under the key has ended"
    )
    go_on.set()
    await writing
    assert (await rotating).left == 0
    assert await key_of(await open_test_store(NEXT, KEY), nth_ref(7)) == "late"


async def test_a_refresh_that_ends_during_the_rotation_is_not_overwritten(open_test_store: StoreOpener) -> None:
    node, operator = await open_test_store(), await open_test_store()
    count = 20
    for n in range(count):
        await node.connections.put(new(nth_ref(n)), now=NOW)

    async def renew(n: int) -> None:
        assert await node.refreshes.lease_refresh(nth_ref(n), owner=f"o{n}", ttl=TTL)
        saved = await node.refreshes.save_refreshed(
            nth_ref(n), owner=f"o{n}", version=1, credential={"apiKey": f"renewed-{n}"}, expires_at=None, now=NOW
        )
        assert saved is not None

    done, *_ = await asyncio.gather(
        operator.rotation.rotate(ignore_progress, fresh=True), *(renew(n) for n in range(count))
    )
    assert done.left == 0
    after = await open_test_store()
    for n in range(count):
        assert await key_of(after, nth_ref(n)) == f"renewed-{n}"


async def test_a_damaged_value_is_reported_and_keeps_its_key(open_test_store: StoreOpener) -> None:
    store = await open_test_store()
    await fill(store, 4)
    bad = await stored_row(store, nth_ref(2))
    flipped = bytearray(bad.credential.ciphertext)
    flipped[-1] ^= 1
    await store.transactions.write(
        lambda db: db.execute(
            text("UPDATE connections SET credential = :c WHERE uid = :u"), {"c": bytes(flipped), "u": bad.uid}
        )
    )
    rotated = await open_test_store(NEXT, KEY)
    done = await rotated.rotation.rotate(ignore_progress)
    assert done.damaged == [f"connections.credential of {bad.uid}"]
    assert (done.left, done.removed_keys) == (1, 1)
    assert await rotated.rotation.verify(ignore_progress) == done.damaged
    assert await key_of(rotated, nth_ref(1, "prod")) == "k1"


async def test_node_without_the_new_key_works_and_reports_the_missing_key(open_test_store: StoreOpener) -> None:
    behind, operator = await open_test_store(KEY), await open_test_store(NEXT, KEY)
    await fill(behind, 3)
    credential = await stored_row(behind, nth_ref(2))
    await operator.rotation.rotate(ignore_progress)
    assert behind.open(credential.credential)["apiKey"] == "k2"  # the credential comes from memory
    with pytest.raises(Unavailable, match="encryption key that this node does not have"):
        await behind.connections.put(new(), now=NOW)
    lease: dict[str, Any] = {"owner": "a", "ttl": timedelta(seconds=30)}
    # the call fails before a token is spent
    with pytest.raises(Unavailable, match="encryption key that this node does not have"):
        await behind.refreshes.lease_refresh(credential.ref, known_row=credential, intent="digest", **lease)
    found = await stored_row(behind, nth_ref(2))
    with pytest.raises(Unavailable, match="cannot be opened"):
        behind.open(found.credential)


ROTATE = """
import asyncio, os, sys
from gateway.store import open_store, rotation
from gateway.vault import Keyring

async def main():
    keyring = Keyring([bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3])])
    rotation.BATCH = 8
    store = await open_store(sys.argv[1], keyring, environments=())
    def step(done, total):
        if done >= int(sys.argv[4]):
            os.kill(os.getpid(), 9)
    await store.rotation.rotate(step)

asyncio.run(main())
"""


@pytest.mark.parametrize("after", [0, BATCH + 1])
async def test_rotation_killed_at_any_step_continues(open_test_store: StoreOpener, url: str, after: int) -> None:
    older = await open_test_store(KEY)
    await fill(older, 2 * BATCH + 3)
    store = await open_test_store(NEXT, KEY)
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", ROTATE, url, NEXT.hex(), KEY.hex(), str(after))
    assert await killed.wait() == -9
    assert await store.rotation.verify(ignore_progress) == [], (
        "in the middle of a rotation, every value can be decrypted"
    )
    counted = await store.rotation.counts()
    remaining = sum(key.total for key in counted.data_keys if not key.newest)
    assert (remaining < counted.total) == (after > 0)
    done = await store.rotation.rotate(ignore_progress)
    assert (done.sealed, done.new_keys, done.removed_keys, done.left) == (remaining, 0, 2, 0)


async def test_a_key_that_is_still_needed_is_reported_with_its_sealed_values(open_test_store: StoreOpener) -> None:
    store = await open_test_store(KEY)
    await fill(store, 9)
    with pytest.raises(StoreRefused) as refusal:
        await open_test_store(NEXT)
    message = str(refusal.value)
    assert "2 data keys, with 17 values, encrypted with a key that is not in store.encryption_keys" in message
    assert "`gateway keys rotate`" in message
    assert "\n" not in message


def test_batches_are_smaller_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "BATCH", 80)
    monkeypatch.setattr(rotation, "MIN_BATCH", 5)
    batch = rotation.BatchSize()
    sizes = []
    for held_s in (1.0, 1.0, 1.0, 1.0, 1.0, 0.001, 0.001):
        batch.adapt_to(held_s)
        sizes.append(len(next(batch.split(range(1000)))))
    assert sizes == [40, 20, 10, 5, 5, 10, 20]
    assert [key for some in batch.split(range(101)) for key in some] == list(range(101))


@sqlite_only
async def test_journalled_reply_opens_after_a_rotation(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply on the disk is sealed with the previous data key, which is kept until the refresh ends."""
    monkeypatch.setattr(response_keys, "REFRESHES_S", 0.0)
    row = await reply_of_a_killed_process(open_test_store)
    both = await open_test_store(NEXT, KEY)
    done = await both.rotation.rotate(ignore_progress)
    assert (done.new_keys, done.removed_keys, done.kept_keys, done.left) == (2, 1, 1, 0)
    await both.close()

    after = await open_test_store(NEXT)
    (recorded,) = (await after.journal.earlier_replies(row)).replies
    assert recorded.reply.body == b"fresh"
    assert (await after.rotation.rotate(ignore_progress)).removed_keys == 0
    await after.refreshes.release_lease(row.ref, owner="o")
    assert (await after.rotation.rotate(ignore_progress)).removed_keys == 1


@sqlite_only
async def test_journalled_reply_opens_after_a_rotation_if_its_refresh_was_claimed_again(
    open_test_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process claims the refresh, but cannot finish it yet, for example because a setting is missing."""
    monkeypatch.setattr(response_keys, "REFRESHES_S", 0.0)
    row = await reply_of_a_killed_process(open_test_store)
    store = await open_test_store(NEXT, KEY)
    assert (await store.rotation.rotate(ignore_progress)).kept_keys == 1
    seen = await store.connections.get(row.ref)
    assert seen is not None
    claim = store.refreshes.lease_refresh(
        row.ref, owner="next", ttl=TTL, known_row=seen, intent="digest", from_holder=True
    )
    assert await claim
    assert (await store.rotation.rotate(ignore_progress)).removed_keys == 0
    await store.close()

    after = await open_test_store(NEXT)
    (recorded,) = (await after.journal.earlier_replies(row)).replies
    assert recorded.reply.body == b"fresh"


async def reply_of_a_killed_process(open_test_store: StoreOpener) -> Connection:
    """Return a connection with an open refresh, whose reply is only in the journal of a process that was killed."""
    store = await open_test_store(KEY)
    await fill(store, 2)
    row = await store.connections.get(nth_ref(1, "prod"))
    assert row is not None
    now = clock.now()
    assert await store.refreshes.lease_refresh(row.ref, owner="o", ttl=TTL, known_row=row, intent="digest")
    await store.journal.prepare("prod")
    entry = store.journal.entry(row)
    assert entry is not None
    reply = Reply(200, {}, b"fresh", now)
    file = JournalFile(entry.folder)
    file.reply(entry, ProviderCall("https://a.example/token"), reply)
    file.die()
    await store.close()
    return row
