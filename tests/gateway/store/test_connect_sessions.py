"""A connect session exists until it expires, is deleted, or its connection is deleted."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

import pytest

from gateway import clock
from gateway.errors import Forbidden
from gateway.records.connecting import ConnectSession, SessionTerms
from gateway.records.connection import EndUser
from gateway.store import Store
from gateway.store.pending_authorizations import COUNTED_AFTER
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new

SOON = NOW + timedelta(minutes=30)
TERMS = SessionTerms(session_digest="d1")
FULL = ConnectSession(
    digest="d1",
    environment="dev",
    expires_at=SOON,
    end_user=EndUser("e1", "a@b.example", "Ann", {"x": "y"}, "o1", "Org"),
    tags=MappingProxyType({"a": "b"}),
    allowed_integrations=("jira", "github"),
    defaults={"jira": {"connection_config": {"subdomain": "acme"}, "user_scopes": ["a"]}},
    overrides={"jira": {"docs_connect": "https://x.example"}},
    webhook_url_override="https://hook.example",
    connection_id="u1",
    integration_id="jira",
    single_use=True,
    max_connections=2,
    code_challenge="c" * 43,
    return_url="https://app.example.com/back?x=1",
    return_state="s",
)


async def test_concurrent_nodes_do_not_exceed_the_limit_on_open_sessions(
    store: Store, open_test_store: StoreOpener
) -> None:
    stores = [store, await open_test_store()]
    first = ConnectSession(digest="d", environment="dev", key_id="1", expires_at=clock.now() + timedelta(minutes=30))
    sessions = [replace(first, digest=f"d{n}") for n in range(40)]
    other = replace(first, digest="other", key_id="2")
    added = await asyncio.gather(
        *(stores[n % 2].sessions.add(session, max_open=5) for n, session in enumerate(sessions)),
        store.sessions.add(other, max_open=5),
    )
    assert added[-1] is None
    assert added[:-1].count(None) == 5


async def test_a_session_is_found_by_its_digest_with_all_fields(store: Store) -> None:
    await store.sessions.add(FULL)
    await store.sessions.add(ConnectSession(digest="d2", environment="prod", expires_at=SOON))
    assert await store.sessions.get("d1", now=NOW) == FULL
    assert await store.sessions.get("d2", now=NOW) == ConnectSession(digest="d2", environment="prod", expires_at=SOON)
    assert await store.sessions.get("d3", now=NOW) is None


async def test_an_expired_session_is_not_found_before_it_is_pruned(store: Store) -> None:
    await store.sessions.add(replace(FULL, max_connections=None))
    assert await store.sessions.get("d1", now=SOON - timedelta(milliseconds=1))
    assert await store.sessions.get("d1", now=SOON) is None
    await store.prune(SOON)
    assert not await store.sessions.delete("d1")


async def test_a_session_can_be_deleted_once(store: Store) -> None:
    await store.sessions.add(FULL)
    assert await store.sessions.delete("d1")
    assert not await store.sessions.delete("d1")
    assert await store.sessions.get("d1", now=NOW) is None


async def test_session_for_a_connection_is_deleted_with_the_connection(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    await store.sessions.add(FULL)
    await store.sessions.add(ConnectSession(digest="d2", environment="dev", expires_at=SOON, integration_id="jira"))
    await store.connections.delete(REF, now=NOW)
    assert await store.sessions.get("d1", now=NOW) is None
    assert await store.sessions.get("d2", now=NOW)


async def test_one_of_many_simultaneous_browsers_keeps_a_session(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store(), await open_test_store()]
    await stores[0].sessions.add(FULL)
    kept = await asyncio.gather(*(stores[n % 2].sessions.keep_for_browser("d1", f"b{n}") for n in range(8)))
    assert sum(kept) == 1
    winner = f"b{kept.index(True)}"
    assert await stores[0].sessions.keep_for_browser("d1", winner), "the same browser comes back"
    found = await stores[1].sessions.get("d1", now=NOW)
    assert found is not None
    assert (found.single_use, found.browser_digest) == (True, winner)
    assert not await stores[0].sessions.keep_for_browser("unknown", "b1")


async def test_no_more_connections_are_stored_than_a_session_may_make(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store(), await open_test_store()]
    await stores[0].sessions.add(replace(FULL, max_connections=3))

    async def add_connection(n: int) -> bool:
        ref = REF._replace(connection_id=f"c{n}")
        with contextlib.suppress(Forbidden):
            await stores[n % 2].connections.put(new(ref), now=NOW, terms=replace(TERMS, limited=True))
            return True
        assert await stores[0].connections.get(ref) is None
        return False

    assert sum(await asyncio.gather(*map(add_connection, range(8)))) == 3
    found = await stores[0].sessions.get("d1", now=NOW)
    assert found is not None
    assert (found.connections_made, found.is_used_up) == (3, True)


async def test_a_session_without_a_limit_counts_its_connections(store: Store) -> None:
    await store.sessions.add(replace(FULL, max_connections=None))
    for _ in range(3):
        await store.connections.put(new(), now=NOW, terms=TERMS)
    found = await store.sessions.get("d1", now=NOW)
    assert found is not None
    assert (found.connections_made, found.is_used_up) == (3, False)
    await store.sessions.delete("d1")
    assert await store.connections.put(new(), now=NOW, terms=TERMS), "an authorization outlives its session"


async def test_a_session_with_a_limit_counts_authorizations_that_end_after_it(store: Store) -> None:
    await store.sessions.add(replace(FULL, max_connections=1))
    await store.prune(SOON)
    assert await store.sessions.get("d1", now=SOON) is None
    limited = replace(TERMS, limited=True)
    await store.connections.put(new(), now=SOON, terms=limited)
    with pytest.raises(Forbidden, match="its limit of 1 connection"):
        await store.connections.put(new(), now=SOON, terms=limited)
    await store.prune(SOON + COUNTED_AFTER)
    with pytest.raises(Forbidden, match="was ended"):
        await store.connections.put(new(), now=SOON, terms=limited)
