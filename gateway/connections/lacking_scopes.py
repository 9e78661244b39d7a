"""The connections that lack scopes, found by looking at each: what was granted is sealed with the credential."""

from dataclasses import dataclass, replace
from typing import Final

from gateway import clock
from gateway.connections.scope_drift import scope_drift
from gateway.generation import Generation
from gateway.records.connection import Connection
from gateway.store import ListFilter, Store, cursor_after

LOOKED_AT: Final = 10_000  # rows that one request opens at most
ROWS_AT_ONCE: Final = 500
OPENED_AT_ONCE: Final = 25  # until others have the event loop's turn


@dataclass(frozen=True, slots=True)
class FoundLacking:
    """`cursor`: where to go on; None where there are no more. There may be a cursor though few or none were found."""

    rows: list[Connection]
    cursor: str | None


async def find_lacking(store: Store, generation: Generation, environment: str, wanted: ListFilter) -> FoundLacking:
    """Find connections with missing scopes among those `wanted`, up to its `limit`; at most `LOOKED_AT` rows are read."""
    rows: list[Connection] = []
    looked_at, asked = 0, replace(wanted, limit=ROWS_AT_ONCE)
    while True:
        some = await store.connections.list(environment, asked)
        for row in some:
            if len(rows) == wanted.limit:
                return FoundLacking(rows, asked.cursor)
            asked = replace(asked, cursor=cursor_after(row))
            looked_at += 1
            if lacks_scopes(store, generation, row):
                rows.append(row)
            if looked_at % OPENED_AT_ONCE == 0:
                await clock.give_way()
        if len(some) < ROWS_AT_ONCE:
            return FoundLacking(rows, None)
        if looked_at >= LOOKED_AT:
            return FoundLacking(rows, asked.cursor)


def lacks_scopes(store: Store, generation: Generation, row: Connection) -> bool:
    """Return whether the end user has yet to grant scopes that its integration, or the provider's API, asks for."""
    provider = generation.catalog.get(row.provider)
    if provider is None:
        return False
    integration = generation.integrations.find(*row.ref[:2])
    held = store.open_or_nothing(row.credential)
    drift = scope_drift(held, provider, integration, refused=row.refused_scopes)
    return bool(drift.missing or drift.any_of)
