"""Changes on PostgreSQL: a connection that LISTENs, and reads where the log of changes ends as its heartbeat.

A notification says that there is something, the log says what; so one that is lost, with the connection or behind a pooler
that knows no LISTEN, costs time and nothing else.
"""

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import asyncpg
import structlog

from gateway import clock
from gateway.config import PoolConfig
from gateway.store.changes import ChangesMissed
from gateway.store.faults import unavailable
from gateway.store.postgres.connecting import Unreachable, cause_in_words, connect

CHANNEL: Final = "gateway_changes"
TOGETHER_S: Final = 0.01  # what comes in a burst is read at once
LONGEST_CONNECT_S: Final = 2.0  # an attempt that hangs must not outlast the outage by much
LAST: Final = "SELECT coalesce(max(id), 0), clock_timestamp(), {timeline} FROM changes"
TIMELINE: Final = "CASE WHEN pg_is_in_recovery() THEN NULL ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END"

log = structlog.get_logger(__name__)


class PostgresWatch:
    def __init__(self, url: str, pool: PoolConfig) -> None:
        self._url = url
        self._connect_s = min(pool.connect_s, LONGEST_CONNECT_S)
        self._bell = asyncio.Event()
        self._db: asyncpg.Connection[Any] | None = None
        self.timeline: str | None = None
        self.timeline_sql: str | None = None
        self._looking = asyncio.Lock()

    async def moved(self, at_most_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._bell.wait()
                self._bell.clear()
                await asyncio.sleep(TOGETHER_S)

    async def version(self) -> Hashable:
        """Where the log ends, at the price of one look into its index. Listens again if the connection was lost.

        Measures the offset of the database's clock on the way (`gateway.clock.offset`).
        """
        async with self._looking:
            try:
                async with asyncio.timeout(self._connect_s):
                    db = self._db or await self._listening()
                    sent = clock.machine()
                    last_id, database, timeline = await db.fetchrow(LAST.format(timeline=self.timeline_sql or "NULL"))
                    received = clock.machine()
            except Unreachable as fault:
                raise unavailable(str(fault)) from fault
            except BaseException as fault:
                self._drop()
                if isinstance(fault, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
                    raise unavailable(cause_in_words(fault, self._connect_s)) from fault
                raise
            _measure(sent, received, database)
            before, self.timeline = self.timeline, timeline or self.timeline
            if before is not None and self.timeline != before:
                raise ChangesMissed  # a standby took over, whose log may lack what we have read already
            return int(last_id)

    async def close(self) -> None:
        self._drop()

    async def _listening(self) -> "asyncpg.Connection[Any]":
        db = await connect(self._url, connect_s=self._connect_s, statement_s=self._connect_s, read_only=True)
        try:
            db.add_termination_listener(lambda _: self._bell.set())
            await db.add_listener(CHANNEL, lambda *_: self._bell.set())
            try:
                await db.fetchval(f"SELECT {TIMELINE}")
                self.timeline_sql = TIMELINE
            except asyncpg.PostgresError:  # a server that is like PostgreSQL need not have it
                self.timeline_sql = None
        except BaseException:
            db.terminate()
            raise
        self._db = db
        return db

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.terminate()


def _measure(sent: datetime, received: datetime, database: datetime) -> None:
    offset = clock.offset
    if not offset.measured(sent, received, database):
        return
    seconds = round(offset.seconds, 3)
    if not offset.reported:
        log.info("clock_offset_gone", offset_s=seconds)
        return
    effect = "this node refreshes no token" if offset.refused else "this node goes by the database's clock"
    log.warning("clock_offset", offset_s=seconds, effect=effect)
