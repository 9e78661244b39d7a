"""The queries of refreshes and of the change feed use an index, for any number of connections."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.dialects import sqlite

from gateway.records.connection import ConnectionRef
from gateway.store import ListFilter, LogPosition, Store
from gateway.store.connection_rows import list_query
from gateway.store.transactions import CompiledStatement
from tests.gateway.store.conftest import NOW, REF, new, sqlite_only


@sqlite_only
async def test_no_refresh_statement_scans_a_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [ConnectionRef("dev", "github", f"o{n}") for n in range(3)]
    seen, _ = await store.connections.put(new(), now=NOW)
    for ref in others:
        await store.connections.put(new(ref=ref), now=NOW)
    statements: list[tuple[str, Any]] = []

    bind = CompiledStatement.bind

    def record_statement(_db: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    def record_bound(compiled: CompiledStatement, parameters: Any) -> Any:
        statement, arguments = bind(compiled, parameters)
        statements.append((statement, tuple(arguments)))
        return statement, arguments

    monkeypatch.setattr(CompiledStatement, "bind", record_bound)
    event.listen(Engine, "before_cursor_execute", record_statement)
    await store.connections.get(REF)
    await store.connections.marks([REF, *others])
    await store.changes.read_since(LogPosition(2, {1: 0.0}))
    lease = {"ttl": timedelta(seconds=30)}
    assert await store.refreshes.lease_refresh(REF, owner="a", known_row=seen, intent="digest", **lease)
    assert await store.refreshes.extend_lease(REF, owner="a", **lease)
    saved = {"credential": {"type": "API_KEY", "apiKey": "k2"}, "expires_at": None, "now": NOW}
    row = await store.refreshes.save_refreshed(REF, owner="a", version=1, known_row=seen, **saved)
    assert row is not None
    assert await store.refreshes.lease_refresh(REF, owner="b", **lease)
    assert await store.refreshes.save_refreshed(REF, owner="b", version=2, **saved)
    event.remove(Engine, "before_cursor_execute", record_statement)

    plans = []
    async with store.transactions.read() as db:
        for statement, parameters in statements:
            if statement.startswith(("SELECT", "UPDATE", "DELETE")):
                plan = (await db.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)).all()
                plans.append((statement, [step[3] for step in plan]))
    assert len(plans) > 8
    assert [
        item for item in plans if any(step.startswith(("SCAN connections", "SCAN changes")) for step in item[1])
    ] == []


@sqlite_only
@pytest.mark.parametrize("of_one", [False, True])
async def test_connections_in_trouble_are_found_by_their_index(store: Store, of_one: bool) -> None:
    """The query reads neither the active connections nor those of other integrations."""
    await store.connections.put(new(), now=NOW)
    wanted = ListFilter(in_trouble=True, integration_ids=("github",) if of_one else ())
    statement = str(list_query("dev", wanted).compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    async with store.transactions.read() as db:
        plan = (await db.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")).all()
    assert ["connections_by_trouble" in step[3] for step in plan] == [True]
