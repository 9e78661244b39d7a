"""The store in a PostgreSQL database, which several nodes share."""

import asyncio
from typing import Final

from sqlalchemy import func, select

from gateway.config import PoolConfig
from gateway.journal.place import journal_of_node
from gateway.store.backend import Backend, Upgrade
from gateway.store.faults import told_as_unavailable
from gateway.store.node_id import NONE, node_id
from gateway.store.postgres.connecting import place_of
from gateway.store.postgres.engine import migrating_engine, postgres_engines
from gateway.store.postgres.look import examine
from gateway.store.postgres.watch import CHANNEL, PostgresWatch
from gateway.store.transactions import Transactions
from gateway.vault import Keyring

TURN: Final = select(func.pg_advisory_xact_lock(0x6761_7465_7761_7901))  # the name, and which of our locks


NOTIFY: Final = select(func.pg_notify(CHANNEL, ""))


async def notify(transactions: Transactions) -> None:
    """Wake the processes that listen to the log of changes.

    In a statement of its own, after the commit: in the whole cluster, PostgreSQL commits one notifying transaction at a time,
    and that includes waiting for a synchronous standby.
    """
    async with transactions.read() as db:
        await db.execute(NOTIFY)


async def open_postgres(url: str, keyring: Keyring, pool: PoolConfig) -> Backend:
    """Raises StoreRefused."""
    await examine(url, keyring, connect_s=pool.connect_s)
    transactions = Transactions(postgres_engines(url, pool), queue_s=pool.wait_s, notify=notify)

    async def alone(upgrade: Upgrade) -> None:
        """However many nodes start at once, one upgrades at a time; the next then finds nothing left to do."""
        engine = migrating_engine(url, pool)
        try:
            with told_as_unavailable():
                async with engine.begin() as db:
                    await db.execute(TURN)
                    await upgrade(db)
        finally:
            await engine.dispose()

    place = place_of(url)
    journal = await asyncio.to_thread(journal_of_node, place)
    node = await asyncio.to_thread(node_id, journal.parent) if journal is not None else NONE
    return Backend(place, transactions, PostgresWatch(url, pool), alone, journal, node)
