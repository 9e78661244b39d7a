"""The filters, the order and the paging of docs/compatibility.md#connections."""

from datetime import timedelta
from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.records.connection import ConnectionRef, EndUser
from gateway.store import ListFilter, Store, cursor_after
from gateway.store.connection_rows import list_query
from tests.gateway.store.conftest import NOW, new, sqlite_only


@pytest.fixture
async def five_connections(store: Store) -> Store:
    rows: list[tuple[str, str, str, dict[str, str], EndUser | None]] = [
        ("dev", "jira", "alpha", {"plan": "pro", "eu": "1"}, EndUser("e1", "ann@x.example", "Ann ÄRGER", None, "o1")),
        ("dev", "github", "alpha", {"plan": "free"}, EndUser("e1", organization_id="o2")),
        ("dev", "jira", "b_ta%", {"plan": "pro"}, EndUser("e2", "BOB@x.example", None, None, "o1")),
        ("dev", "slack", "gamma", {}, None),
        ("prod", "jira", "alpha", {"plan": "pro"}, EndUser("e1", organization_id="o1")),
    ]
    for n, (environment, integration, connection, tags, end_user) in enumerate(rows):
        at = NOW + timedelta(seconds=n // 2)  # every two connections have the same time
        ref = ConnectionRef(environment, integration, connection)
        await store.connections.put(new(ref, tags=tags, end_user=end_user), now=at)
    return store


async def listed_names(store: Store, **wanted: Any) -> list[str]:
    found = await store.connections.list("dev", ListFilter(**wanted))
    return [f"{connection.ref.integration_id}/{connection.ref.connection_id}" for connection in found]


GIVEN: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["slack/gamma", "jira/b_ta%", "github/alpha", "jira/alpha"]),
    ({"connection_id": "alpha"}, ["github/alpha", "jira/alpha"]),
    ({"connection_id": "ALPHA"}, []),
    ({"search": "LPH"}, ["github/alpha", "jira/alpha"]),
    ({"search": "ärg"}, ["jira/alpha"]),
    ({"search": "bob@X"}, ["jira/b_ta%"]),
    ({"search": "%"}, ["jira/b_ta%"]),
    ({"search": "_"}, ["jira/b_ta%"]),
    ({"search": "o1"}, []),
    ({"end_user_id": "e1"}, ["github/alpha", "jira/alpha"]),
    ({"organization_id": "o1"}, ["jira/b_ta%", "jira/alpha"]),
    ({"integration_ids": ("jira", "slack")}, ["slack/gamma", "jira/b_ta%", "jira/alpha"]),
    ({"tags": {"PLAN": "pro"}}, ["jira/b_ta%", "jira/alpha"]),
    ({"tags": {"plan": "Pro"}}, []),
    ({"tags": {"plan": "pro", "eu": "1"}}, ["jira/alpha"]),
    ({"tags": {"plan": "pro"}, "integration_ids": ("github",)}, []),
    ({"limit": 2}, ["slack/gamma", "jira/b_ta%"]),
    ({"limit": 2, "offset": 2}, ["github/alpha", "jira/alpha"]),
    ({"limit": 2, "offset": 4}, []),
]


async def test_listed_connections_match_all_given_filters(five_connections: Store) -> None:
    """One test covers all filters, because it writes nothing."""
    found = [(wanted, await listed_names(five_connections, **wanted)) for wanted, _ in GIVEN]
    assert found == GIVEN


async def test_tags_that_are_replaced_are_no_longer_found(five_connections: Store) -> None:
    await five_connections.connections.put(new(ConnectionRef("dev", "jira", "alpha"), tags={"plan": "gone"}), now=NOW)
    assert await listed_names(five_connections, tags={"plan": "pro"}) == ["jira/b_ta%"]
    assert await listed_names(five_connections, tags={"plan": "gone"}) == ["jira/alpha"]


async def test_a_cursor_continues_after_the_page_although_rows_are_added_and_deleted(five_connections: Store) -> None:
    page = await five_connections.connections.list("dev", ListFilter(limit=2))
    await five_connections.connections.put(new(ConnectionRef("dev", "jira", "newcomer")), now=NOW + timedelta(days=1))
    await five_connections.connections.delete(page[-1].ref, now=NOW)
    assert await listed_names(five_connections, cursor=cursor_after(page[-1])) == ["github/alpha", "jira/alpha"]
    last = (await five_connections.connections.list("dev", ListFilter()))[-1]
    assert await listed_names(five_connections, cursor=cursor_after(last)) == []


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "x", "é", "W10", "WyIyMDI2LTAxLTAyIiwgMV0", "bnVsbA", "WyJ4IiwgMV0", "[" * 9000),
        "WyIwMDAxLTAxLTAxVDAwOjAwOjAwKzE0OjAwIiwgMV0",  # a time that is before year 1 in UTC
    ],
)
async def test_invalid_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        await store.connections.list("dev", ListFilter(cursor=cursor))


@sqlite_only
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"limit": 100}, "connections_by_age"),
        ({"limit": 100, "search": "x"}, "connections_by_age"),
        ({"connection_id": "c"}, "connections_by_connection_id"),
        ({"end_user_id": "e"}, "connections_by_end_user"),
        ({"organization_id": "o"}, "connections_by_organization"),
        ({"tags": {"a": "b"}}, "connection_tags_by_value"),
    ],
)
async def test_each_filter_has_its_index(store: Store, wanted: dict[str, Any], index: str) -> None:
    async with store.transactions.read() as db:
        statement = list_query("dev", ListFilter(**wanted)).compile(
            db.sync_engine, compile_kwargs={"literal_binds": True}
        )
        plan = (await db.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}".replace("%", "%%"))).all()
    assert index in str(plan)
    assert "SCAN connections" not in str(plan)
