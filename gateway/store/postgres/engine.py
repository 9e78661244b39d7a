"""Engines for PostgreSQL: a pool that reads and one that writes, so that neither waits behind the other."""

from typing import Any, Final

from sqlalchemy import NullPool, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from gateway.config import PoolConfig
from gateway.store.engine import Engines, as_json
from gateway.store.postgres.causes import USELESS_AFTER
from gateway.store.postgres.connecting import connect

DIALECT: Final = "postgresql+asyncpg://"  # the address itself goes to the driver, which reads it as libpq does


def postgres_engines(url: str, pool: PoolConfig) -> Engines:
    """Connections are made when they are first needed and kept; one that the server has closed is replaced."""
    reader = _engine(url, pool, size=pool.readers, read_only=True, isolation_level="AUTOCOMMIT")
    writer = _engine(url, pool, size=pool.writers, read_only=False)
    return Engines(writer, reader, writes_at_once=pool.writers)


def migrating_engine(url: str, pool: PoolConfig) -> AsyncEngine:
    """For one long transaction: a large table may take longer to move on than any statement otherwise may."""

    async def made() -> Any:
        return await connect(url, connect_s=pool.connect_s, statement_s=None)

    return create_async_engine(DIALECT, async_creator=made, poolclass=NullPool, hide_parameters=True)


def _engine(url: str, pool: PoolConfig, *, size: int, read_only: bool, **options: Any) -> AsyncEngine:
    async def made() -> Any:
        return await connect(url, connect_s=pool.connect_s, statement_s=pool.statement_s, read_only=read_only)

    engine = create_async_engine(
        DIALECT,
        async_creator=made,
        pool_size=size,
        max_overflow=0,
        pool_timeout=pool.wait_s,
        json_serializer=as_json,
        hide_parameters=True,  # an error must not print what was to be stored
        **options,
    )
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    event.listen(engine.sync_engine, "handle_error", _give_up_useless)
    return engine


def _refuse_closed(connection: Any, _record: Any, _proxy: Any) -> None:
    """A restarted server has closed them all, which the driver knows without asking; a ping would cost every call one."""
    if connection.driver_connection.is_closed():
        raise InvalidatePoolError


def _give_up_useless(context: ExceptionContext) -> None:
    if getattr(context.original_exception, "sqlstate", None) in USELESS_AFTER:
        context.is_disconnect = True
