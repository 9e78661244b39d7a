"""Work that one node does for all: a lease by name, which another takes over when its holder no longer renews it."""

from datetime import datetime, timedelta

from sqlalchemy import delete, or_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.store.tables import task_leases
from gateway.store.transactions import Transactions
from gateway.store.upsert import insert_if_absent


class TaskLeases:
    """`owner` names a process; it may ask again for what it holds, which renews it."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def hold(self, name: str, *, owner: str, now: datetime, ttl: timedelta) -> bool:
        """Whether `owner` is the one that does the work of that name until `now` + `ttl`."""
        values = {"owner": owner, "until": now + ttl}
        free = or_(task_leases.c.owner == owner, task_leases.c.until <= now)

        async def write(db: AsyncConnection) -> bool:
            if await insert_if_absent(db, task_leases, {"name": name, **values}, key=["name"]):
                return True
            claim = update(task_leases).where(task_leases.c.name == name, free)
            return (await db.execute(claim.values(values))).rowcount == 1

        return await self._transactions.write(write)

    async def release(self, name: str, *, owner: str) -> None:
        """Let another take it at once; nothing happens if it is another's."""
        mine = delete(task_leases).where(task_leases.c.name == name, task_leases.c.owner == owner)
        await self._transactions.write(lambda db: db.execute(mine))
