"""The store in a PostgreSQL database: its engines, and its change feed by LISTEN.

One connection LISTENs. As its heartbeat, the same connection reads the last id of the change log.

A notification only says that the change log has grown. The change log itself says what changed. So if a notification is
lost, only the next read is delayed. A notification is lost if its connection breaks, or if a pooler does not support
LISTEN.
"""

import asyncio
from collections.abc import Hashable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final

import asyncpg
import structlog
from sqlalchemy import NullPool, event, func, select
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway import clock
from gateway.config import PoolConfig
from gateway.http.json_depth import parse_stored_json
from gateway.journal.journal_folder import journal_of_node, other_journals_of_node
from gateway.store.backend import NO_NODE_ID, Backend, Upgrade, node_id
from gateway.store.call_log.postgres_call_log import PostgresCallLog
from gateway.store.changes import ChangesMissed
from gateway.store.database_faults import DatabaseUnavailable, raised_as_unavailable
from gateway.store.postgres.postgres_connection import DatabaseUnreachable, cause_in_words, connect, database_name
from gateway.store.postgres.server_preflight import examine
from gateway.store.postgres.sqlstates import CONNECTION_USELESS
from gateway.store.transactions import BoundStatement, Engines, Transactions, as_json, driver_of
from gateway.vault import Keyring

# ── Engines for PostgreSQL: one pool for reads and one pool for writes, so that reads never wait for writes.

DIALECT: Final = "postgresql+asyncpg://"  # the driver gets the URL itself and parses it like libpq


def postgres_engines(url: str, pool: PoolConfig) -> Engines:
    """Return SQLAlchemy's engines for reads and for writes.

    A connection is opened when it is first needed, and then kept. A connection that the server has closed is replaced.
    """
    reader = _engine(url, pool, size=pool.readers, read_only=True, isolation_level="AUTOCOMMIT")
    writer = _engine(url, pool, size=pool.writers, read_only=False)
    return Engines(writer, reader, pool.writers, fetch_row, run_in_one_trip)


async def run_in_one_trip(db: AsyncConnection, statements: Sequence[BoundStatement]) -> Sequence[Any] | None:
    """Run the only statement as a transaction of its own, and return its row."""
    (statement,) = statements
    return await fetch_row(db, statement)


async def fetch_row(db: AsyncConnection, statement: BoundStatement) -> Sequence[Any] | None:
    """Run the statement as a transaction of its own, and return its row.

    If the connection cannot be used any more, SQLAlchemy runs the statement again. It fails again, and SQLAlchemy then
    replaces all connections of the pool.
    """
    text, arguments = statement
    driver = driver_of(db)
    try:
        row: Sequence[Any] | None = await driver.fetchrow(text, *arguments)
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as fault:
        if driver.is_closed() or getattr(fault, "sqlstate", None) in CONNECTION_USELESS:
            await db.exec_driver_sql(text, tuple(arguments))
        raise DBAPIError(text, None, fault, hide_parameters=True) from fault
    return row


def migrating_engine(url: str, pool: PoolConfig) -> AsyncEngine:
    """Return an engine without a statement timeout, for one transaction.

    The migration of a large table can take longer than `store.pool.statement_s`.
    """

    async def open_connection() -> Any:
        return await connect(url, connect_s=pool.connect_s, statement_s=None)

    return create_async_engine(DIALECT, async_creator=open_connection, poolclass=NullPool, hide_parameters=True)


def _engine(url: str, pool: PoolConfig, *, size: int, read_only: bool, **options: Any) -> AsyncEngine:
    async def open_connection() -> Any:
        return await connect(url, connect_s=pool.connect_s, statement_s=pool.statement_s, read_only=read_only)

    engine = create_async_engine(
        DIALECT,
        async_creator=open_connection,
        pool_size=size,
        max_overflow=0,
        pool_timeout=pool.wait_s,
        json_serializer=as_json,
        json_deserializer=parse_stored_json,
        hide_parameters=True,  # an error message must not contain the values to be stored
        **options,
    )
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    event.listen(engine.sync_engine, "handle_error", _mark_as_disconnected)
    return engine


def _refuse_closed(connection: Any, _record: Any, _proxy: Any) -> None:
    """Reject a closed connection, and with it the whole pool: a restarted server has closed all connections.

    The driver notices when the server closes a connection. So calls need no ping, which would make every call slower.
    """
    if connection.driver_connection.is_closed():
        raise InvalidatePoolError


def _mark_as_disconnected(context: ExceptionContext) -> None:
    if getattr(context.original_exception, "sqlstate", None) in CONNECTION_USELESS:
        context.is_disconnect = True


CHANNEL: Final = "gateway_changes"
GATHER_S: Final = 0.05  # the wait after a notification, so that one read covers a burst of notifications
# The limit after the start, so that an attempt that hangs does not outlast an outage by much. At the start, the limit
# is `store.pool.connect_s`.
MAX_CONNECT_S: Final = 2.0
SELECT_LAST_ID: Final = "SELECT coalesce(max(id), 0), clock_timestamp(), {timeline} FROM changes"
TIMELINE: Final = "CASE WHEN pg_is_in_recovery() THEN NULL ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END"

log = structlog.get_logger(__name__)


class PostgresWatch:
    def __init__(self, url: str, pool: PoolConfig) -> None:
        self._url = url
        self._connect_s = pool.connect_s
        self._changed = asyncio.Event()
        self._db: asyncpg.Connection[Any] | None = None
        self.timeline: str | None = None
        self.timeline_sql: str | None = None
        self._check_lock = asyncio.Lock()

    async def wait_for_change(self, at_most_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._changed.wait()
                self._changed.clear()
                await asyncio.sleep(GATHER_S)

    async def version(self) -> Hashable:
        """Return the last id of the change log. Costs one index lookup.

        Listens again if the connection was lost. Also measures the offset of the database's clock
        (`gateway.clock.offset`).
        """
        async with self._check_lock:
            try:
                async with asyncio.timeout(self._connect_s):
                    db = self._db or await self._connect_listener()
                    sent_at = clock.machine()
                    last_id, database, timeline = await db.fetchrow(
                        SELECT_LAST_ID.format(timeline=self.timeline_sql or "NULL")
                    )
                    received = clock.machine()
            except DatabaseUnreachable as fault:
                raise DatabaseUnavailable(str(fault)) from fault
            except BaseException as fault:
                self._drop()
                if isinstance(fault, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
                    raise DatabaseUnavailable(cause_in_words(fault, self._connect_s)) from fault
                raise
            self._connect_s = min(self._connect_s, MAX_CONNECT_S)
            _measure_clock_offset(sent_at, received, database)
            former_timeline, self.timeline = self.timeline, timeline or self.timeline
            if former_timeline is not None and self.timeline != former_timeline:
                raise ChangesMissed  # a standby took over, whose log possibly lacks changes that this process has read
            return int(last_id)

    async def close(self) -> None:
        self._drop()

    async def _connect_listener(self) -> "asyncpg.Connection[Any]":
        db = await connect(self._url, connect_s=self._connect_s, statement_s=self._connect_s, read_only=True)
        try:
            db.add_termination_listener(lambda _: self._changed.set())
            await db.add_listener(CHANNEL, lambda *_: self._changed.set())
            try:
                await db.fetchval(f"SELECT {TIMELINE}")
                self.timeline_sql = TIMELINE
            except asyncpg.PostgresError:  # some PostgreSQL-compatible servers do not have these functions
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


def _measure_clock_offset(sent_at: datetime, received_at: datetime, database: datetime) -> None:
    offset = clock.offset
    if not offset.add_measurement(sent_at, received_at, database):
        return
    seconds = round(offset.seconds, 3)
    if not offset.is_reported:
        log.info("clock_offset_gone", offset_s=seconds)
        return
    effect = "this node does not refresh tokens" if offset.is_refused else "this node goes by the database's clock"
    log.warning("clock_offset", offset_s=seconds, effect=effect)


# ── The store in a PostgreSQL database, which several nodes share.

# ASCII "gateway", then the lock's number
UPGRADE_LOCK: Final = select(func.pg_advisory_xact_lock(0x6761_7465_7761_7901))


NOTIFY: Final = f"SELECT pg_notify('{CHANNEL}', '')"


async def notify(transactions: Transactions) -> None:
    """Wake the processes that listen to the change log.

    The notification is a statement of its own, after the commit. PostgreSQL commits only one notifying transaction at a
    time in the whole cluster. With a synchronous standby, each of these commits also waits for the standby.
    """
    await transactions.fetch_row((NOTIFY, ()))


async def open_postgres(url: str, keyring: Keyring, pool: PoolConfig) -> Backend:
    """Check and open the database. Raises StoreRefused."""
    await examine(url, keyring, connect_s=pool.connect_s)
    transactions = Transactions(postgres_engines(url, pool), queue_s=pool.wait_s, notify=notify)

    async def upgrade_exclusively(upgrade: Upgrade) -> None:
        """Run the upgrade on one node at a time, even if many nodes start at the same time.

        The later nodes find that there is nothing to upgrade.
        """
        engine = migrating_engine(url, pool)
        try:
            with raised_as_unavailable():
                async with engine.begin() as db:
                    await db.execute(UPGRADE_LOCK)
                    await upgrade(db)
        finally:
            await engine.dispose()

    name = database_name(url)
    journal = await asyncio.to_thread(journal_of_node, name)
    node = await asyncio.to_thread(node_id, journal.parent) if journal is not None else NO_NODE_ID
    return Backend(
        name,
        transactions,
        PostgresWatch(url, pool),
        upgrade_exclusively,
        PostgresCallLog(transactions),
        journal,
        tuple if journal is None else partial(other_journals_of_node, journal),
        node,
    )
