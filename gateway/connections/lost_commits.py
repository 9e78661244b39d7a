"""After a failover: writes connections back to a database that has lost commits, if they are newer in memory."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final

import structlog

from gateway import clock
from gateway.records.connection import Connection, ConnectionRef
from gateway.refresh.recovery import reconcile
from gateway.refresh.refresher import Refresher
from gateway.store import Store
from gateway.vault import VaultError

ROWS_PER_QUERY: Final = 200  # rows compared with the database in one query

log = structlog.get_logger(__name__)


class LostCommits:
    """Writes back the connections that this process knows in a newer version than the database.

    `written_back`: number of newer tokens written back, by environment and integration.
    """

    def __init__(self, store: Store, refresher: Refresher) -> None:
        self._store = store
        self._refresher = refresher
        self._rows_set_aside: dict[ConnectionRef, Connection] = {}
        self.written_back: Counter[tuple[str, str]] = Counter()

    def set_row_aside(self, row: Connection) -> None:
        """Keep a row that leaves the cache while the database cannot be read, or while it lacks commits."""
        self._rows_set_aside[row.ref] = row

    async def write_back(self, cached_rows: Iterable[Connection]) -> None:
        """Write newer rows back, beginning with the latest refresh. `cached_rows`: the rows in the cache."""
        rows = self._newest(cached_rows)
        sorted_rows = sorted(rows, key=lambda row: row.last_refreshed_at or row.created_at, reverse=True)
        count_before = self.written_back.total()
        for start in range(0, len(sorted_rows), ROWS_PER_QUERY):
            batch = sorted_rows[start : start + ROWS_PER_QUERY]
            marks = await self._store.connections.marks([row.ref for row in batch])
            older_rows = (row for row in batch if row.ref in marks and marks[row.ref][0] < row.version)
            await asyncio.gather(*map(self._write_one_back, older_rows))
        await reconcile(self._store)
        self._rows_set_aside.clear()
        written_back_count = self.written_back.total() - count_before
        if written_back_count:
            log.error("database_lost_commits", written_back=written_back_count, kept=len(rows))
        else:
            log.info("changes_missed", kept=len(rows))

    def _newest(self, cached_rows: Iterable[Connection]) -> list[Connection]:
        """Return the newest version of each connection that this process knows.

        A connection that was deleted and created again under the same id counts as another connection.
        """
        rows = {row.uid: row for row in cached_rows}
        claimed_rows = (claim.row for claim in self._store.failover.claims.values())
        for row in (*self._rows_set_aside.values(), *claimed_rows, *self._refresher.recent):
            known_row = rows.get(row.uid)
            if known_row is None or known_row.version < row.version:
                rows[row.uid] = row
        return list(rows.values())

    async def _write_one_back(self, row: Connection) -> None:
        log_fields = {"environment": row.ref.environment, "integration": row.ref.integration_id}
        try:
            written_row = await self._store.connections.write_back(row, now=clock.now())
        except VaultError as fault:
            log.error("token_not_written_back", connection_id=row.ref.connection_id, detail=str(fault), **log_fields)
            return
        if written_row is not None:
            self.written_back[row.ref[:2]] += 1
            log.warning(
                "token_written_back", connection_id=row.ref.connection_id, version=written_row.version, **log_fields
            )
