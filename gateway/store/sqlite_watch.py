"""Changes on SQLite: `PRAGMA data_version` tells of every commit, and the write-ahead log's file hints that there is one."""

import asyncio
from collections.abc import Hashable
from pathlib import Path
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from gateway import clock
from gateway.store.faults import told_as_unavailable

GLANCE_S: Final = 0.05


class SqliteWatch:
    """`engine` has one connection, because data_version compares with itself on the same connection only."""

    timeline: str | None = None
    timeline_sql: str | None = None

    def __init__(self, engine: AsyncEngine, path: Path) -> None:
        self._engine = engine
        self._log = path.with_name(path.name + "-wal")
        self._seen = self._stamp()

    async def moved(self, at_most_s: float) -> None:
        """Looks at size and time of the log, microseconds each. Both may miss a commit, which then waits for the end."""
        end = clock.monotonic() + at_most_s
        while (left := end - clock.monotonic()) > 0:
            await asyncio.sleep(min(left, GLANCE_S))
            stamp = self._stamp()
            if stamp != self._seen:
                self._seen = stamp
                return

    async def version(self) -> Hashable:
        """The data_version, and the connection's identity, at the price of no table read."""
        with told_as_unavailable():
            async with self._engine.connect() as db:
                raw = await db.get_raw_connection()
                return id(raw.driver_connection), (await db.exec_driver_sql("PRAGMA data_version")).scalar_one()

    async def close(self) -> None:
        await self._engine.dispose()

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._log.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
