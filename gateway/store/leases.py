"""Leases on refreshes: who may ask for a successor, and the intent that is on the disk before that (ADR 5, ADR 20, ADR 42)."""

from datetime import timedelta
from functools import cached_property
from typing import Any, Final

from sqlalchemy import Update, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.connection import Connection, ConnectionRef, Lease
from gateway.store.connection_rows import NO_INTENT, NO_LEASE, at, lease_columns, place
from gateway.store.data_keys import DataKeys
from gateway.store.failover import Failover
from gateway.store.last import execute_last
from gateway.store.outbox import Outbox
from gateway.store.own_changes import OwnChanges
from gateway.store.refresh_statements import RENEWED, SAVED, LeaseStatements
from gateway.store.tables import connections
from gateway.store.transactions import Transactions
from gateway.vault import Vault

AT_ONCE: Final = timedelta(0)


class Leases:
    """The owner names one attempt, the version the credential it set out to replace."""

    def __init__(
        self,
        transactions: Transactions,
        vault: Vault,
        keys: DataKeys,
        outbox: Outbox,
        own: OwnChanges,
        failover: Failover,
    ) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys
        self._outbox = outbox
        self._own = own
        self._failover = failover
        self._rehearsed = False  # the first save of a process is compiled before its token call, not after it

    @cached_property
    def _statements(self) -> LeaseStatements:
        by_database = self._transactions.dialect.name == "postgresql"
        return LeaseStatements(by_database=by_database, timeline=self._failover.sql)

    async def lease_refresh(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        ttl: timedelta,
        seen: Connection | None = None,
        intent: str | None = None,
        ran_out: timedelta = AT_ONCE,
        from_holder: bool = False,
    ) -> bool:
        """Ask to be the one that refreshes this credential for the next `ttl` (ADR 5).

        One conditional UPDATE, by the database's time. `owner` names this attempt, not the node. With `seen` it succeeds
        only while the row, its intent and its holder are as `seen` has them, so that nothing need be read again; and
        `intent`, the digest of the refresh token that is about to be redeemed, is on the disk when this returns.
        `ran_out`: a lease that another holds must have run out so long ago. `from_holder`: the holder in `seen` is known to
        be dead, so its lease need not have run out. False: another holds the lease, the row is another by now or is gone,
        or the database failed over; read the row again.
        """
        claim = self._statements.claim
        values: dict[str, Any] = {**place(ref), "lease_owner": owner}
        if self._failover.sql is not None:
            values["timeline"] = self._failover.timeline
        if seen is not None:
            claim = self._statements.take if from_holder else self._statements.claim_seen
            digest = seen.intent.digest if seen.intent is not None else None
            holder = seen.lease.owner if seen.lease is not None else None
            values |= {"seen_version": seen.version, "seen_updated_at": seen.updated_at, "seen_digest": digest}
            values["seen_owner"] = holder
        if intent is not None:
            values |= {"intent_digest": intent, "intent_at": clock.now()}

        async def write(db: AsyncConnection) -> bool:
            if not self._rehearsed and intent is not None:
                self._rehearsed = True
                nobody = {**place(ConnectionRef("", "", "")), "seen_version": 0, "owner": "", "row_uid": ""}
                await db.execute(RENEWED, nobody | SAVED)
            times = {"lease_for": self._statements.value(ttl)}  # from when it is written: there may have been a queue
            if not from_holder:
                times["free_for"] = self._statements.value(-ran_out)
            return (await execute_last(db, claim, values | times)).rowcount == 1

        if intent is None:
            return await self._transactions.write(write)
        # Where what the call gives could not be sealed, no token is spent: a newer data key shows in the transaction only.
        return await self._transactions.write(write, before=lambda: self._keys.allow(ref.environment))

    async def extend_lease(self, ref: ConnectionRef, *, owner: str, ttl: timedelta) -> bool:
        """Hold the lease for `ttl` from now on, also if it has run out meanwhile. False: it is another's by now."""

        async def write(db: AsyncConnection) -> bool:
            values = {**place(ref), "owner": owner, "lease_for": self._statements.value(ttl)}
            return (await db.execute(self._statements.hold, values)).rowcount == 1

        return await self._transactions.write(write)

    async def release_lease(
        self, ref: ConnectionRef, *, owner: str, still_open: bool = False, former: Lease | None = None
    ) -> None:
        """Give the lease back: nothing was asked. Nothing happens if it is another's by now.

        `still_open`: an earlier intent is as unsettled as it was, and `former` held the lease that it was claimed from.
        """
        mine = update(connections).where(at(ref), connections.c.lease_owner == owner)
        given_back = NO_LEASE if former is None else lease_columns(former)
        await self._changed(mine.values(given_back if still_open else NO_LEASE | NO_INTENT))

    async def end_lease(self, ref: ConnectionRef, *, owner: str) -> None:
        """Have our own lease run out now, with its intent open: the token may have been sent, and this attempt is over."""
        await self.extend_lease(ref, owner=owner, ttl=AT_ONCE)

    async def _changed(self, statement: Update) -> bool:
        async def write(db: AsyncConnection) -> bool:
            return (await db.execute(statement)).rowcount == 1

        return await self._transactions.write(write)
