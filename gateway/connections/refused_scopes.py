"""Records the scopes that a provider's API demands with a 403 (RFC 6750 §3.1).

Until the end user authorizes again, the connection shows these scopes as missing, and a reconnect requests them. A
scope that is already granted or recorded is not written again. After `MAX_SCOPES` scopes nothing is written, so that a
provider cannot cause endless writes.
"""

from collections.abc import Callable

import structlog

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.connections.opened import OpenedConnection
from gateway.connections.scope_drift import ScopeDrift, scope_drift
from gateway.errors import GatewayError
from gateway.http.scope_challenge import MAX_SCOPES
from gateway.records.connection import Connection, RefusedScopes, log_fields
from gateway.records.integration import Integration
from gateway.store import Store

log = structlog.get_logger(__name__)


class ScopeRefusals:
    """Records the scopes for lack of which an API refused a call. `replace`: puts a written row into the cache."""

    def __init__(self, store: Store, replace: Callable[[Connection], None]) -> None:
        self._store = store
        self._replace = replace

    async def record(self, opened_connection: OpenedConnection, scopes: tuple[str, ...], path: str) -> ScopeDrift:
        """Record that the API requires `scopes`, and return the scopes that the connection now lacks.

        `path`: the path of the call, below the base URL.
        """
        row = opened_connection.connection
        recorded = row.refused_scopes
        refused = RefusedScopes(scopes, clock.now(), path)
        credential = self._store.open_or_nothing(row.credential)
        drift = scope_drift(credential, opened_connection.provider, opened_connection.integration, refused=refused)
        lacking_scopes = drift.refused or drift.any_of
        recorded_scopes = () if recorded is None else recorded.scopes
        if not set(lacking_scopes) <= set(recorded_scopes) and len(recorded_scopes) < MAX_SCOPES:
            await self._write(row, RefusedScopes(lacking_scopes, refused.at, path))
        return drift

    async def _write(self, known_row: Connection, refused: RefusedScopes) -> None:
        try:
            row = await self._store.rejections.record_scopes(known_row, refused)
        except GatewayError as fault:  # the next refused call tries again
            log.warning("refused_scopes_not_stored", **log_fields(known_row.ref), detail=fault.message)
            return
        if row is not None:
            self._replace(row)
            log.info("scopes_refused", **log_fields(row.ref), scopes=list(refused.scopes), path=refused.path)


def scopes_to_request(
    store: Store, row: Connection | None, provider: Provider, integration: Integration
) -> tuple[str, ...] | None:
    """Return the scopes to request in a reconnect after a refused call. These are the scopes that the API required,
    those that the integration needs, and those already granted.

    Return None if the reconnect needs only the integration's scopes.
    """
    if row is None or row.refused_scopes is None:
        return None
    drift = scope_drift(store.open_or_nothing(row.credential), provider, integration, refused=row.refused_scopes)
    return drift.union(frozenset(provider.available_scopes or ())) if drift.refused else None
