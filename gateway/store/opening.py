"""Opens the store at a URL: checks and connects the database, migrates the schema, loads the keys."""

import asyncio
import importlib
from collections.abc import Collection
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.config import PoolConfig
from gateway.errors import Unavailable
from gateway.store.backend import Backend
from gateway.store.data_keys import DataKeys, UnreadableSecrets
from gateway.store.database_faults import refused_start
from gateway.store.failover import Failover
from gateway.store.migrations import REVISIONS, create_tables, schema_revision
from gateway.store.preflight import POSTGRES
from gateway.store.store import Store
from gateway.vault import Keyring, Vault, VaultError

UPGRADE: Final = "gateway.store.migrations.upgrade"


async def open_store(
    url: str,
    keyring: Keyring,
    *,
    environments: Collection[str],
    busy_s: float = 5.0,
    pool: PoolConfig | None = None,
) -> Store:
    """Open the store at `url`: migrate it, and create missing environments and data keys.

    Checks keys and schema before the first write. `busy_s`: how long a write waits for other processes, in seconds; for
    SQLite. `pool`: the connection pool, for PostgreSQL; None for the defaults. Raises StoreRefused with one line of
    text for the operator.
    """
    pool = pool or PoolConfig()
    backend = await _connect(url, keyring, busy_s, pool)
    unreadable = UnreadableSecrets()
    vault = Vault(unreadable.record)
    keys = DataKeys(backend.transactions, keyring, vault)
    failover = Failover(backend.transactions, backend.watch)
    try:
        await _migrate(backend)
        await keys.load()
        await keys.ensure(sorted(environments))
        await backend.watch.version()  # measures the database's clock before anything uses it
        await failover.adopt_timeline()
    except BaseException as error:
        await backend.close()
        if isinstance(error, Unavailable | VaultError):
            raise refused_start(backend.database_name, error) from error
        raise
    return Store(backend, vault, keys, failover, unreadable, statement_s=pool.statement_s)


async def _connect(url: str, keyring: Keyring, busy_s: float, pool: PoolConfig) -> Backend:
    """Connect to the database. Imports the modules of one database only."""
    if url.startswith(POSTGRES):
        from gateway.store.postgres.postgres_backend import open_postgres

        return await open_postgres(url, keyring, pool)
    from gateway.store.sqlite.sqlite_backend import open_sqlite

    return await open_sqlite(url, keyring, busy_s=busy_s)


async def _migrate(backend: Backend) -> None:
    async with backend.transactions.read() as db:
        revision = await db.run_sync(schema_revision)
    if revision == REVISIONS[-1]:
        return
    if revision is not None:  # Alembic is imported only for an upgrade, and not within a transaction
        await asyncio.to_thread(importlib.import_module, UPGRADE)

    async def create_or_upgrade(db: AsyncConnection) -> None:
        await db.execute(select(1))  # begins the transaction, which takes SQLite's write lock
        revision_now = await db.run_sync(schema_revision)  # another process may have created the tables meanwhile
        if revision_now is None:
            await db.run_sync(create_tables)
        elif revision_now != REVISIONS[-1]:
            await db.run_sync(importlib.import_module(UPGRADE).upgrade)

    await backend.upgrade_exclusively(create_or_upgrade)
