"""The store as the rest of the gateway sees it: one object, one part a table."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select

from gateway.errors import Unavailable
from gateway.records.connection import Sealed
from gateway.store.changes import ChangeLog
from gateway.store.connections import ConnectionStore
from gateway.store.data_keys import DataKeys
from gateway.store.flows import FlowStore
from gateway.store.history import HistoryStore
from gateway.store.keep_alive import KeepAliveStore
from gateway.store.request_log import RequestLog
from gateway.store.sessions import SessionStore
from gateway.store.tasks import TaskLeases
from gateway.store.transactions import Transactions
from gateway.store.watch import Watch
from gateway.vault import Vault, VaultError


class Store:
    """Made by `open_store`. Its methods raise Unavailable while the database cannot be used."""

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys, watch: Watch) -> None:
        self._transactions = transactions
        self._keys = keys
        self.vault = vault
        self.connections = ConnectionStore(transactions, vault, keys)
        self.history = HistoryStore(transactions)
        self.keep_alive = KeepAliveStore(transactions, keys)
        self.tasks = TaskLeases(transactions)
        self.sessions = SessionStore(transactions, vault, keys)
        self.flows = FlowStore(transactions, vault, keys)
        self.changes = ChangeLog(transactions, watch)
        self.request_log = RequestLog(transactions)

    def open(self, sealed: Sealed | None) -> Mapping[str, Any]:
        """What was sealed; nothing where there is nothing. Raises Unavailable where no key at hand opens it."""
        if sealed is None:
            return {}
        try:
            return self.vault.open_json(sealed)
        except VaultError as fault:
            raise Unavailable(
                "store_unavailable", f"A stored secret cannot be opened. {fault}", retry_after_s=60
            ) from fault

    async def ensure_environments(self, names: set[str]) -> None:
        """Make the environments that a reloaded configuration names for the first time."""
        await self._keys.ensure(sorted(names))

    async def prune(self, now: datetime) -> None:
        """Remove what has expired: sessions, flows, and changes that every node has long seen. Call it now and then."""
        await self.sessions.prune(now)
        await self.flows.prune(now)
        await self.changes.prune(now)
        await self.connections.forget_previous(now)

    async def ping(self) -> None:
        """Ask the database for nothing. Raises Unavailable if it does not answer."""
        async with self._transactions.read() as db:
            await db.execute(select(1))

    async def close(self) -> None:
        """Finish the writes that were begun and close all connections, even if the caller is cancelled meanwhile."""
        await asyncio.shield(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        await self.changes.close()
        await self._transactions.close()
