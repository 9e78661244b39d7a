"""Changes on PostgreSQL: a connection that LISTENs, and reads where the log of changes ends as its heartbeat.

A notification says that there is something, the log says what; so one that is lost, with the connection or behind a pooler
that knows no LISTEN, costs time and nothing else.
"""

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from typing import Any, Final

import asyncpg

from gateway.config import PoolConfig
from gateway.store.changes import ChangesMissed
from gateway.store.faults import unavailable
from gateway.store.postgres.connecting import Unreachable, cause_in_words, connect

CHANNEL: Final = "gateway_changes"
TOGETHER_S: Final = 0.01  # what comes in a burst is read at once
LONGEST_CONNECT_S: Final = 2.0  # an attempt that hangs must not outlast the outage by much
LAST: Final = "SELECT coalesce(max(id), 0) FROM changes"
TIMELINE: Final = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"


class PostgresWatch:
    def __init__(self, url: str, pool: PoolConfig) -> None:
        self._url = url
        self._connect_s = min(pool.connect_s, LONGEST_CONNECT_S)
        self._bell = asyncio.Event()
        self._db: asyncpg.Connection[Any] | None = None
        self._timeline: str | None = None
        self._looking = asyncio.Lock()

    async def moved(self, at_most_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._bell.wait()
                self._bell.clear()
                await asyncio.sleep(TOGETHER_S)

    async def version(self) -> Hashable:
        """Where the log ends, at the price of one look into its index. Listens again if the connection was lost."""
        async with self._looking:
            try:
                async with asyncio.timeout(self._connect_s):
                    before = self._timeline
                    db = self._db or await self._listening()
                    last_id: int = await db.fetchval(LAST)
            except Unreachable as fault:
                raise unavailable(str(fault)) from fault
            except BaseException as fault:
                self._drop()
                if isinstance(fault, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
                    raise unavailable(cause_in_words(fault, self._connect_s)) from fault
                raise
            if before is not None and self._timeline != before:
                raise ChangesMissed  # a standby took over, whose log may lack what we have read already
            return last_id

    async def close(self) -> None:
        self._drop()

    async def _listening(self) -> "asyncpg.Connection[Any]":
        db = await connect(self._url, connect_s=self._connect_s, statement_s=self._connect_s, read_only=True)
        try:
            db.add_termination_listener(lambda _: self._bell.set())
            await db.add_listener(CHANNEL, lambda *_: self._bell.set())
            with suppress(asyncpg.PostgresError):  # a server that is like PostgreSQL need not have it
                self._timeline = await db.fetchval(TIMELINE)
        except BaseException:
            db.terminate()
            raise
        self._db = db
        return db

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.terminate()
