"""Reads rows of connections from the store, each once for all who ask meanwhile."""

import asyncio

from gateway.connections import advice
from gateway.errors import NotFound
from gateway.records.connection import Connection, ConnectionRef
from gateway.store import Store


class Loads:
    """What is being read now. A reading outlives whoever asked for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loading: dict[ConnectionRef, asyncio.Task[Connection]] = {}

    async def row(self, ref: ConnectionRef) -> Connection:
        """From the store, once for all who ask meanwhile. Raises NotFound."""
        task = self._loading.get(ref)
        if task is None:
            task = asyncio.create_task(self.row_anew(ref))
            self._loading[ref] = task
            task.add_done_callback(lambda done: (self._loading.pop(ref, None), done.cancelled() or done.exception()))
        return await asyncio.shield(task)

    async def row_anew(self, ref: ConnectionRef) -> Connection:
        """From the store, asked now. Raises NotFound."""
        row = await self._store.connections.get(ref)
        if row is None:
            raise NotFound(
                "unknown_connection",
                f"Integration '{ref.integration_id}' in environment '{ref.environment}' has no connection "
                f"'{ref.connection_id}'. Check the id, or {advice.CONNECT}.",
                payload={"provider_config_key": ref.integration_id, "connection_id": ref.connection_id},
            )
        return row
