"""A connection is either pending or stored, for any number of concurrent requests and after any crash."""

import asyncio
import sys
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from unittest.mock import Mock

import pytest
from sqlalchemy import text

from gateway.errors import Forbidden, InvalidRequest
from gateway.records.connecting import ConnectSession, PendingConnection, SessionTerms
from gateway.records.connection import Account, Connection, EndUser, Lifespan, NewConnection, RefreshFailure
from gateway.store import Store
from gateway.store.database_faults import DatabaseUnavailable
from tests.gateway.store.conftest import KEY, NOW, REF, StoreOpener, new

SOON = NOW + timedelta(minutes=10)
TERMS = SessionTerms(session_digest="d1", code_challenge="c" * 43)
LIMITED = replace(TERMS, limited=True)
FULL = NewConnection(
    ref=REF,
    provider="jira",
    credential={"type": "OAUTH2", "access_token": "t0ken-a", "raw": {"scope": "x"}},
    expires_at=NOW + timedelta(hours=1),
    config={"cloudId": "c"},
    secret_config={"pin": "s3cret-pin"},
    metadata={"plan": 1},
    tags={"a": "b"},
    end_user=EndUser("e1", "a@b.example", "Ann", {"x": "y"}, "o1", "Org"),
    webhook_url_override="https://hook.example",
    life=Lifespan(NOW, SOON, True),
    account=Account("a1", "ann@example.com"),
    ended=RefreshFailure("not_renewable", "over", True, NOW, 1, None),
    warning="ends",
)


def allow_any(_there: Connection | None) -> None:
    pass


async def add(store: Store, connection: NewConnection = FULL, terms: SessionTerms = TERMS) -> PendingConnection:
    return (await store.pending.add(connection, terms, expires_at=SOON, reconnects=False))[0]


async def expire(store: Store, now: datetime) -> list[PendingConnection]:
    return [connection async for connection in store.pending.expire(now)]


async def session(store: Store, max_connections: int | None = 1) -> None:
    await store.sessions.add(
        ConnectSession(digest="d1", environment="dev", expires_at=SOON, max_connections=max_connections)
    )


async def connections_made(store: Store) -> int:
    found = await store.sessions.get("d1", now=NOW)
    assert found is not None
    return found.connections_made


async def test_pending_connection_is_sealed_and_returned_completely(store: Store) -> None:
    whole = replace(FULL, integration_uid="i1")
    added = await add(store, whole)
    assert added.new == whole
    assert await store.pending.find_by_session("d1", now=NOW) == [added]
    assert (added.provider, added.account, added.config) == ("jira", FULL.account, {"cloudId": "c"})
    async with store.transactions.read() as db:
        row = (await db.execute(text("SELECT * FROM pending_connections"))).mappings().one()
    assert b"t0ken-a" not in bytes(row["sealed"])
    assert "t0ken-a" not in repr(row["sealed"])
    assert "t0ken-a" not in repr(added)
    assert "s3cret-pin" not in repr(added)
    assert await store.connections.get(REF) is None


async def test_completing_stores_the_connection_once(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store(), await open_test_store()]
    added = await add(stores[0])
    done = await asyncio.gather(
        *(stores[n % 2].pending.complete(added, now=NOW, check=allow_any) for n in range(8)), return_exceptions=True
    )
    stored = [item for item in done if item is not None]
    assert len(stored) == 1, done
    connection, created = stored[0]  # type: ignore[misc]
    assert (created, connection.ref, connection.version, connection.account) == (True, REF, 1, FULL.account)
    assert stores[1].open(connection.credential) == FULL.credential
    (completed,) = await stores[1].pending.find_by_session("d1", now=NOW)
    assert (completed.uid, completed.new) == (added.uid, None)
    assert await expire(stores[0], SOON) == []
    assert await stores[0].pending.find_by_session("d1", now=NOW) == []


@pytest.mark.parametrize("waits", [False, True], ids=["new", "in the place of one"])
async def test_typed_credential_of_another_browser_is_refused(open_test_store: StoreOpener, waits: bool) -> None:
    """The credential is refused even if the claim happens immediately before the credential arrives, on any node."""
    stores = [await open_test_store(), await open_test_store()]
    await session(stores[0], max_connections=5)
    existing = [await add(stores[0])] if waits else []
    assert await stores[1].sessions.keep_for_browser("d1", "alice")
    for other in ("", "bob"):
        with pytest.raises(Forbidden, match="in use in another browser"):
            await add(stores[0], terms=replace(TERMS, browser_digest=other))
    assert await stores[0].pending.find_by_session("d1", now=NOW) == existing
    assert await connections_made(stores[0]) == len(existing)
    await add(stores[0], terms=replace(TERMS, browser_digest="alice"))
    assert await connections_made(stores[0]) == 1


async def test_credential_without_a_browser_is_refused_after_a_browser_claimed_the_session(
    open_test_store: StoreOpener,
) -> None:
    """A credential that was stored without a browser was stored before any browser claimed the session."""
    stores = [await open_test_store(), await open_test_store()]
    for n in range(20):
        await stores[0].sessions.add(ConnectSession(digest=f"s{n}", environment="dev", expires_at=SOON))
        terms = replace(TERMS, session_digest=f"s{n}", browser_digest="")

        async def claimed_then_kept(n: int = n) -> None:
            assert await stores[1].sessions.keep_for_browser(f"s{n}", "alice")
            mine = replace(TERMS, session_digest=f"s{n}", browser_digest="alice")
            await add(stores[1], replace(FULL, metadata={"of": "alice"}), mine)

        typed, own = await asyncio.gather(add(stores[0], terms=terms), claimed_then_kept(), return_exceptions=True)
        assert own is None
        assert isinstance(typed, PendingConnection | Forbidden), typed
        (kept,) = await stores[0].pending.find_by_session(f"s{n}", now=NOW)
        assert kept.new is not None
        assert kept.new.metadata == {"of": "alice"}


async def test_ended_session_refuses_typed_credentials(store: Store) -> None:
    with pytest.raises(Forbidden, match="was ended"):
        await add(store, terms=replace(TERMS, browser_digest=""))


async def test_a_connection_that_a_check_refuses_stays_pending(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    before = await store.connections.get(REF)
    added = await add(store)
    seen = []

    def refuse(existing: Connection | None) -> None:
        seen.append(existing)
        raise InvalidRequest("invalid_connection", "no")

    with pytest.raises(InvalidRequest):
        await store.pending.complete(added, now=NOW, check=refuse)
    assert seen == [before]
    assert await store.connections.get(REF) == before
    assert await store.pending.find_by_session("d1", now=NOW) == [added]


COMPLETE = """
import asyncio, os, sys
from datetime import datetime
from gateway.store import connection_store as connections, open_store
from gateway.vault import Keyring

async def killed(*_args, **_options):
    os.kill(os.getpid(), 9)

async def main():
    store = await open_store(sys.argv[1], Keyring([bytes.fromhex(sys.argv[2])]), environments=())
    now = datetime.fromisoformat(sys.argv[3])
    (pending,) = await store.pending.find_by_session("d1", now=now)
    connections.record_change = killed  # the last statement before the commit
    await store.pending.complete(pending, now=now, check=lambda there: None)

asyncio.run(main())
"""


async def test_a_process_that_is_killed_within_a_completion_leaves_it_pending(store: Store, url: str) -> None:
    added = await add(store)
    words = (sys.executable, "-c", COMPLETE, url, KEY.hex(), NOW.isoformat())
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == -9, errors
    assert await store.connections.get(REF) is None
    assert await store.pending.find_by_session("d1", now=NOW) == [added]
    assert await store.pending.complete(added, now=NOW, check=allow_any)


async def test_expired_pending_connection_is_removed_by_one_node(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store(), await open_test_store()]
    await session(stores[0])
    added = await add(stores[0], terms=LIMITED)
    assert await connections_made(stores[0]) == 1
    assert await stores[0].pending.find_by_session("d1", now=SOON) == []
    assert await stores[0].pending.complete(added, now=SOON, check=allow_any) is None
    assert await expire(stores[0], NOW) == []
    expired = await asyncio.gather(*(expire(store, SOON) for store in stores))
    assert sorted(expired, key=len) == [[], [added]]
    assert await connections_made(stores[0]) == 0, "the session may connect again"
    assert await stores[0].connections.get(REF) is None


async def test_a_session_makes_no_more_pending_connections_than_allowed(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store(), await open_test_store()]
    await session(stores[0], max_connections=2)

    async def add_limited(n: int) -> bool:
        try:
            await add(stores[n % 2], new(REF._replace(connection_id=f"c{n}")), LIMITED)
        except Forbidden:
            return False
        return True

    assert sum(await asyncio.gather(*map(add_limited, range(8)))) == 2
    waiting = await stores[0].pending.find_by_session("d1", now=NOW)
    assert len(waiting) == await connections_made(stores[0]) == 2
    await stores[0].pending.complete(waiting[0], now=NOW, check=allow_any)
    assert await connections_made(stores[0]) == 2, "the connection was counted when it became pending"


async def test_second_connection_with_the_same_reference_replaces_the_pending_one(store: Store) -> None:
    await session(store)
    first = await add(store, terms=LIMITED)
    second, former = await store.pending.add(FULL, LIMITED, expires_at=SOON, reconnects=True)
    assert former == [first]
    assert await store.pending.find_by_session("d1", now=NOW) == [second]
    assert await connections_made(store) == 1
    assert await store.pending.complete(first, now=NOW, check=allow_any) is None


async def test_wrong_verifiers_are_counted_and_the_last_one_drops_pending_connections(store: Store) -> None:
    await session(store, max_connections=None)
    added = await add(store)
    other = await add(store, new(REF._replace(connection_id="c2")))
    assert [await store.pending.refuse_verifier("d1", limit=3) for _ in range(2)] == [[], []]
    dropped = await store.pending.refuse_verifier("d1", limit=3)
    assert {item.uid for item in dropped} == {added.uid, other.uid}
    assert await store.pending.find_by_session("d1", now=NOW) == []
    assert await connections_made(store) == 0
    assert await store.pending.complete(added, now=NOW, check=allow_any) is None


async def test_a_wrong_verifier_does_not_affect_completed_connections(store: Store) -> None:
    added = await add(store)
    await store.pending.complete(added, now=NOW, check=allow_any)
    assert await store.pending.refuse_verifier("d1", limit=1) == []
    assert len(await store.pending.find_by_session("d1", now=NOW)) == 1


async def test_pending_connection_is_dropped_once(store: Store) -> None:
    added = await add(store)
    assert [await store.pending.drop(added) for _ in range(2)] == [True, False]


async def test_unreadable_pending_connection_is_left_out(store: Store) -> None:
    added = await add(store)
    await store.transactions.write(lambda db: db.execute(text("UPDATE pending_connections SET uid = 'other'")))
    assert await store.pending.find_by_session("d1", now=NOW) == []
    assert await expire(store, SOON) == []
    assert not await store.pending.drop(added)


async def test_all_expired_pending_connections_are_removed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.pending_connections.ROWS_PER_QUERY", 2)
    for n in range(5):
        added = await add(store, new(REF._replace(connection_id=f"c{n}")))
        if n < 3:
            await store.pending.complete(added, now=NOW, check=allow_any)
    expired = await expire(store, SOON)
    assert [connection.ref.connection_id for connection in expired] == ["c3", "c4"]
    assert await expire(store, SOON) == []


async def test_connection_that_is_removed_is_returned_although_the_next_cannot_be_removed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = [await add(store, new(REF._replace(connection_id=f"c{n}"))) for n in range(2)]
    returned = []
    async with aclosing(store.pending.expire(SOON)) as expired:
        returned.append(await anext(expired))
        with monkeypatch.context() as away:
            away.setattr(store.transactions, "write", Mock(side_effect=DatabaseUnavailable("it does not respond")))
            with pytest.raises(DatabaseUnavailable):
                await anext(expired)
    returned += await expire(store, SOON)
    assert sorted(returned, key=lambda connection: connection.ref) == added
