"""Connect sessions live until they expire, are deleted, or lose the connection they were made for."""

from datetime import timedelta
from types import MappingProxyType

from gateway.records.connecting import ConnectSession
from gateway.records.connection import EndUser
from gateway.store import Store
from tests.gateway.store.conftest import NOW, REF, new

SOON = NOW + timedelta(minutes=30)
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
)


async def test_a_session_comes_back_whole_by_its_digest(store: Store) -> None:
    await store.sessions.add(FULL)
    await store.sessions.add(ConnectSession(digest="d2", environment="prod", expires_at=SOON))
    assert await store.sessions.get("d1", now=NOW) == FULL
    assert await store.sessions.get("d2", now=NOW) == ConnectSession(digest="d2", environment="prod", expires_at=SOON)
    assert await store.sessions.get("d3", now=NOW) is None


async def test_an_expired_session_is_gone_before_it_is_pruned(store: Store) -> None:
    await store.sessions.add(FULL)
    assert await store.sessions.get("d1", now=SOON - timedelta(milliseconds=1))
    assert await store.sessions.get("d1", now=SOON) is None
    await store.prune(SOON)
    assert not await store.sessions.delete("d1")


async def test_a_session_can_be_deleted_once(store: Store) -> None:
    await store.sessions.add(FULL)
    assert await store.sessions.delete("d1")
    assert not await store.sessions.delete("d1")
    assert await store.sessions.get("d1", now=NOW) is None


async def test_a_session_made_for_a_connection_goes_with_it(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    await store.sessions.add(FULL)
    await store.sessions.add(ConnectSession(digest="d2", environment="dev", expires_at=SOON, integration_id="jira"))
    await store.connections.delete(REF, now=NOW)
    assert await store.sessions.get("d1", now=NOW) is None
    assert await store.sessions.get("d2", now=NOW)
