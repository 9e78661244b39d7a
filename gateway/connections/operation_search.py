"""Finds the connections that match a call log search by end user, by tag or by a key's limits."""

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.records.access import KeyLimits
from gateway.records.operation import OperationFilter
from gateway.store import ListFilter, Store

MAX_CONNECTIONS: Final = 1000
TOO_MANY_MATCHES: Final = (
    f"More than {MAX_CONNECTIONS} connections match. Name a connection, an integration or more tags."
)


async def matching_connections(
    store: Store,
    filters: OperationFilter,
    *,
    end_user_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    within: Sequence[KeyLimits] = (),
) -> frozenset[tuple[str, str]] | None:
    """Return (integration, connection) of each matching connection that exists now, or None if more than
    `MAX_CONNECTIONS` match. `within`: the limits of the caller's key."""
    rows = await store.connections.list(
        filters.environment,
        ListFilter(
            connection_id=filters.connection_id,
            integration_ids=() if filters.integration_id is None else (filters.integration_id,),
            end_user_id=end_user_id,
            tags=tags or {},
            within=tuple(within),
            limit=MAX_CONNECTIONS + 1,
        ),
    )
    if len(rows) > MAX_CONNECTIONS:
        return None
    return frozenset((row.ref.integration_id, row.ref.connection_id) for row in rows)
