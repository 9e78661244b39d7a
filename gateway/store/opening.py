"""From a URL to an open store: look, prepare, migrate, load the keys. What it refuses, it refuses in one line."""

import asyncio
import importlib
from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import Unavailable
from gateway.store.data_keys import DataKeys
from gateway.store.engine import sqlite_engines
from gateway.store.faults import StoreRefused
from gateway.store.migrations import REVISIONS, schema_revision
from gateway.store.sqlite_file import look, prepare, sqlite_path, still_there
from gateway.store.store import Store
from gateway.store.transactions import Transactions
from gateway.vault import Keyring, Vault, VaultError


async def open_store(url: str, keyring: Keyring, *, environments: Collection[str], busy_s: float = 5.0) -> Store:
    """The store at `url`, migrated, with every environment and its data key in place.

    Keys and schema are checked before the first write. A write waits at most `busy_s` for its turn here and as long
    for other processes. Raises StoreRefused, whose text is one line for the operator.
    """
    path = sqlite_path(url)
    await asyncio.to_thread(look, path, keyring)
    await asyncio.to_thread(prepare, path, busy_s=busy_s)
    transactions = Transactions(sqlite_engines(path, busy_s=busy_s), queue_s=busy_s, check=still_there(path))
    vault = Vault()
    keys = DataKeys(transactions, keyring, vault)
    try:
        await _migrate(transactions)
        await keys.load()
        await keys.ensure(sorted(environments))
    except BaseException as error:
        await transactions.close()
        if isinstance(error, Unavailable | VaultError):
            raise StoreRefused(f"{path} cannot be opened. {error}") from error
        raise
    return Store(transactions, vault, keys)


async def _migrate(transactions: Transactions) -> None:
    async with transactions.read() as db:
        revision = await db.run_sync(schema_revision)
    if revision == REVISIONS[-1]:
        return
    alembic = await asyncio.to_thread(importlib.import_module, "gateway.store.migrations.upgrade")

    async def upgrade(db: AsyncConnection) -> None:
        await db.run_sync(alembic.upgrade)

    await transactions.write(upgrade)
