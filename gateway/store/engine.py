"""Engines: a writer and a reader. Those for SQLite: one connection writes and some read; nothing else opens the file.

A transaction of the writer begins with BEGIN IMMEDIATE, so that it never fails half-way because another has the write lock. The
readers have their own engine, since that same begin would lock each of their reads too.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, event
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

READERS: Final = 4
READING: Final = 3  # times `busy_s`: reads wait for nobody, so that a queue of them moves
EACH: Final = ("foreign_keys = ON", "synchronous = FULL", "journal_size_limit = 67108864")


CloseLeft = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Engines:
    """`writes_at_once`: how many transactions the writer may have open.

    `autocommit`: the writer's connections, where each statement is a transaction of its own; None on SQLite. `close_left`:
    closes connections that were in hand when the engines were disposed of.
    """

    writer: AsyncEngine
    reader: AsyncEngine
    writes_at_once: int
    autocommit: AsyncEngine | None = None
    close_left: tuple[CloseLeft, ...] = ()

    async def dispose(self) -> None:
        """Readers first: on SQLite the last connection to close folds the WAL into the file, which a reader may not."""
        await self.reader.dispose()
        await self.writer.dispose()
        for close in self.close_left:
            await close()


def sqlite_engines(path: Path, *, busy_s: float) -> Engines:
    """Engines over `path`, which exists and is in WAL mode; a writer waits `busy_s` for those of other processes."""
    busy = f"busy_timeout = {int(busy_s * 1000)}"
    writer, close_writers = _engine(path, connections=1, wait_s=busy_s, pragmas=(*EACH, busy))
    reader, close_readers = _engine(
        path, connections=READERS, wait_s=READING * busy_s, pragmas=(busy, "query_only = ON"), autocommit=True
    )
    event.listen(writer.sync_engine, "begin", _begin_immediate)
    return Engines(writer, reader, writes_at_once=1, close_left=(close_readers, close_writers))


def sqlite_watcher(path: Path, *, busy_s: float) -> tuple[AsyncEngine, CloseLeft]:
    """One connection that is always the same, since data_version compares with itself only; and `Engines.close_left`."""
    pragmas = (f"busy_timeout = {int(busy_s * 1000)}", "query_only = ON")
    return _engine(path, connections=1, wait_s=busy_s, pragmas=pragmas, autocommit=True)


def _engine(
    path: Path, *, connections: int, wait_s: float, pragmas: tuple[str, ...], autocommit: bool = False
) -> tuple[AsyncEngine, CloseLeft]:
    from gateway.store.sqlite.sqlite_driver import Connector  # a node on PostgreSQL does not load the driver

    # What begins no transaction has none to roll back, and is spared the trip.
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True} if autocommit else {}
    connector = Connector(path)
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        async_creator=connector,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=wait_s,
        json_serializer=as_json,
        hide_parameters=True,  # an error must not print what was to be stored
        **options,
    )
    event.listen(engine.sync_engine, "connect", _on_connect(pragmas))
    return engine, connector.close_left


def as_json(value: Any) -> str:
    """How both databases keep it."""
    return json.dumps(value, separators=(",", ":"), default=dict)  # any Mapping, not dict alone


def _on_connect(pragmas: tuple[str, ...]) -> Callable[[Any, Any], None]:
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing of its own; `_begin_immediate` does
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return prepare


def _begin_immediate(connection: Connection) -> None:
    driver: Any = connection.connection.driver_connection
    driver.ahead("BEGIN IMMEDIATE")
