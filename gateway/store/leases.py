"""Leases on refreshes: who may ask for a successor, and the intent that is on the disk before that (ADR 5, ADR 20)."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Update, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.connection import Connection, ConnectionRef
from gateway.store.connection_rows import NO_INTENT, NO_LEASE, at, place
from gateway.store.data_keys import DataKeys
from gateway.store.last import execute_last
from gateway.store.outbox import Outbox
from gateway.store.own_changes import OwnChanges
from gateway.store.refresh_statements import CLAIM, CLAIM_SEEN, RENEWED, SAVED
from gateway.store.tables import connections
from gateway.store.transactions import Transactions
from gateway.vault import Vault


class Leases:
    """The owner names one attempt, the version the credential it set out to replace."""

    def __init__(
        self, transactions: Transactions, vault: Vault, keys: DataKeys, outbox: Outbox, own: OwnChanges
    ) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys
        self._outbox = outbox
        self._own = own
        self._rehearsed = False  # the first save of a process is compiled before its token call, not after it

    async def lease_refresh(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        now: datetime,
        ttl: timedelta,
        seen: Connection | None = None,
        intent: str | None = None,
    ) -> bool:
        """Ask to be the one that refreshes this credential for the next `ttl` (ADR 5).

        One conditional UPDATE, so it means the same on SQLite and on PostgreSQL. `owner` names this attempt, not the
        node. With `seen` it succeeds only while the row is as `seen` has it, so that nothing need be read again; and
        `intent`, the digest of the refresh token that is about to be redeemed, is on the disk when this returns. False:
        another holds the lease, the row is another by now or is gone; wait for what is written.
        """
        began = clock.monotonic()
        values: dict[str, Any] = {**place(ref), "claimed_at": now, "lease_owner": owner}
        if seen is not None:
            digest = seen.intent.digest if seen.intent is not None else None
            values |= {"seen_version": seen.version, "seen_updated_at": seen.updated_at, "seen_digest": digest}
        if intent is not None:
            values |= {"intent_digest": intent, "intent_at": now}

        async def write(db: AsyncConnection) -> bool:
            if not self._rehearsed and intent is not None:
                self._rehearsed = True
                nobody = {**place(ConnectionRef("", "", "")), "seen_version": 0, "owner": "", "row_uid": ""}
                await db.execute(RENEWED, nobody | SAVED)
            lease = {"lease_until": _then(now, began) + ttl}  # from when it is written: there may have been a queue
            claim = CLAIM if seen is None else CLAIM_SEEN
            return (await execute_last(db, claim, values | lease)).rowcount == 1

        if intent is None:
            return await self._transactions.write(write)
        # Where what the call gives could not be sealed, no token is spent: a newer data key shows in the transaction only.
        return await self._transactions.write(write, before=lambda: self._keys.allow(ref.environment))

    async def extend_lease(self, ref: ConnectionRef, *, owner: str, now: datetime, ttl: timedelta) -> bool:
        """Hold the lease for `ttl` from `now` on, also if it has run out meanwhile. False: it is another's by now."""
        began = clock.monotonic()
        mine = update(connections).where(at(ref), connections.c.lease_owner == owner)

        async def write(db: AsyncConnection) -> bool:
            return (await db.execute(mine.values(lease_until=_then(now, began) + ttl))).rowcount == 1

        return await self._transactions.write(write)

    async def release_lease(self, ref: ConnectionRef, *, owner: str, still_open: bool = False) -> None:
        """Give the lease back: nothing was asked. Nothing happens if it is another's by now.

        `still_open`: an earlier intent is as unsettled as it was.
        """
        mine = update(connections).where(at(ref), connections.c.lease_owner == owner)
        await self._changed(mine.values(NO_LEASE if still_open else NO_LEASE | NO_INTENT))

    async def holders(self, now: datetime) -> dict[ConnectionRef, str]:
        """Who has a lease with an intent just now."""
        table = connections.c
        wanted = select(table.environment, table.integration_id, table.connection_id, table.lease_owner)
        async with self._transactions.read() as db:
            rows = await db.execute(wanted.where(table.lease_until > now, table.intent_digest.is_not(None)))
            return {ConnectionRef(*row[:3]): row.lease_owner for row in rows}

    async def end_lease(self, ref: ConnectionRef, *, owner: str, now: datetime) -> None:
        """Its holder is known to be dead: the lease has run out, and its intent is as open as it was."""
        await self._changed(
            update(connections).where(at(ref), connections.c.lease_owner == owner).values(lease_until=now)
        )

    async def _changed(self, statement: Update) -> bool:
        async def write(db: AsyncConnection) -> bool:
            return (await db.execute(statement)).rowcount == 1

        return await self._transactions.write(write)


def _then(now: datetime, began: float) -> datetime:
    """What was `now` at `began` (monotonic), by the time that has passed since."""
    return now + timedelta(seconds=clock.monotonic() - began)
