"""Finds connections that lack scopes.

Decrypts each connection, because its granted scopes are encrypted with the credential.
"""

from dataclasses import dataclass, replace
from typing import Final

from gateway import clock
from gateway.connections.scope_drift import scope_drift
from gateway.generation import Generation
from gateway.records.connection import Connection
from gateway.store import ListFilter, Store, cursor_after

MAX_ROWS_READ: Final = 10_000  # maximum number of rows that one request decrypts
ROWS_PER_QUERY: Final = 500
ROWS_BEFORE_PAUSE: Final = 25  # rows decrypted before the event loop may run other tasks


@dataclass(frozen=True, slots=True)
class LackingPage:
    """A page of results. `cursor`: start of the next page, None at the end. A page with few or no rows can have a
    cursor, because one request reads a limited number of rows."""

    rows: list[Connection]
    cursor: str | None


async def find_lacking(store: Store, generation: Generation, environment: str, filters: ListFilter) -> LackingPage:
    """Find the connections that lack scopes among the connections that match `filters`.

    The `limit` of `filters` is the maximum number of connections in the result. At most `MAX_ROWS_READ` rows are read.
    """
    rows: list[Connection] = []
    rows_read, query = 0, replace(filters, limit=ROWS_PER_QUERY)
    while True:
        batch = await store.connections.list(environment, query)
        for row in batch:
            if len(rows) == filters.limit:
                return LackingPage(rows, query.cursor)
            query = replace(query, cursor=cursor_after(row))
            rows_read += 1
            if lacks_scopes(store, generation, row):
                rows.append(row)
            if rows_read % ROWS_BEFORE_PAUSE == 0:
                await clock.give_way()
        if len(batch) < ROWS_PER_QUERY:
            return LackingPage(rows, None)
        if rows_read >= MAX_ROWS_READ:
            return LackingPage(rows, query.cursor)


def lacks_scopes(store: Store, generation: Generation, row: Connection) -> bool:
    """Return whether the end user must still grant scopes that the integration or the provider's API needs."""
    provider = generation.catalog.get(row.provider)
    if provider is None:
        return False
    integration = generation.integrations.find(*row.ref[:2])
    credential = store.open_or_nothing(row.credential)
    drift = scope_drift(credential, provider, integration, refused=row.refused_scopes)
    return bool(drift.missing or drift.any_of)
