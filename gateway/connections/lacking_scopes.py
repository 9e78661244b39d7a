"""Finds connections that lack scopes. It decrypts each one, because the granted scopes are encrypted with the
credential."""

from dataclasses import dataclass, replace
from typing import Final

from gateway import clock
from gateway.connections.scope_drift import scope_drift
from gateway.generation import Generation
from gateway.records.connection import Connection
from gateway.store import ListFilter, Store, cursor_after

LOOKED_AT: Final = 10_000  # maximum number of rows that one request decrypts
ROWS_AT_ONCE: Final = 500
OPENED_AT_ONCE: Final = 25  # rows decrypted before the event loop may run other tasks


@dataclass(frozen=True, slots=True)
class FoundLacking:
    """A page of results. `cursor`: start of the next page, None at the end. A page may have a cursor but few or no
    rows."""

    rows: list[Connection]
    cursor: str | None


async def find_lacking(store: Store, generation: Generation, environment: str, wanted: ListFilter) -> FoundLacking:
    """Find connections with missing scopes among those `wanted`, up to its `limit`; at most `LOOKED_AT` rows are
    read."""
    rows: list[Connection] = []
    looked_at, query = 0, replace(wanted, limit=ROWS_AT_ONCE)
    while True:
        some = await store.connections.list(environment, query)
        for row in some:
            if len(rows) == wanted.limit:
                return FoundLacking(rows, query.cursor)
            query = replace(query, cursor=cursor_after(row))
            looked_at += 1
            if lacks_scopes(store, generation, row):
                rows.append(row)
            if looked_at % OPENED_AT_ONCE == 0:
                await clock.give_way()
        if len(some) < ROWS_AT_ONCE:
            return FoundLacking(rows, None)
        if looked_at >= LOOKED_AT:
            return FoundLacking(rows, query.cursor)


def lacks_scopes(store: Store, generation: Generation, row: Connection) -> bool:
    """Return whether the end user must still grant scopes that the integration or the provider's API needs."""
    provider = generation.catalog.get(row.provider)
    if provider is None:
        return False
    integration = generation.integrations.find(*row.ref[:2])
    held = store.open_or_nothing(row.credential)
    drift = scope_drift(held, provider, integration, refused=row.refused_scopes)
    return bool(drift.missing or drift.any_of)
