"""What a database must offer beneath the store, and what is the same above it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store.node_id import NONE
from gateway.store.transactions import Transactions
from gateway.store.watch import Watch

Upgrade: TypeAlias = Callable[[AsyncConnection], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Backend:
    """Looked at and connected, but not migrated. `place` names it without a password.

    `alone` runs an upgrade in one transaction while no other process runs one. `journal`: the folder of the refresh
    journal, if there is one. `node`: the name of this machine (`node_id`).
    """

    place: str
    transactions: Transactions
    watch: Watch
    alone: Callable[[Upgrade], Awaitable[Any]]
    journal: Path | None = None
    node: str = NONE

    async def close(self) -> None:
        await self.watch.close()
        await self.transactions.close()
