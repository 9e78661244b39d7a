"""What a refresh writes: the lease, the intent before the call, and what came of it, each fenced (ADR 5, ADR 20).

Owner and version are the fence: the owner names one attempt, the version the credential it set out to replace. Whoever
lost the lease to another, or comes when the credential is another by now, changes nothing.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Update, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.connection import Connection, ConnectionRef, Lifespan, RefreshFailure
from gateway.records.states import Happening, of_failure
from gateway.store.changes import note_change
from gateway.store.connection_rows import (
    NO_INTENT,
    NO_LEASE,
    NO_PREVIOUS,
    PREVIOUS,
    WHOLE_ROW,
    at,
    connection_of,
    failure_columns,
    life_columns,
    place,
    sealed_in,
    stored,
)
from gateway.store.data_keys import DataKeys
from gateway.store.history import note_happening
from gateway.store.last import execute_last
from gateway.store.outbox import Outbox
from gateway.store.own_changes import OwnChanges
from gateway.store.refresh_statements import CLAIM, CLAIM_SEEN, HELD, HELD_BEFORE, RENEWED, SAVED
from gateway.store.tables import connections
from gateway.store.transactions import Transactions
from gateway.vault import Vault

NEVER: Final = Lifespan()


class Refreshes:
    """The part of `ConnectionStore` that refreshes use."""

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

    async def save_refreshed(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        version: int,
        credential: Mapping[str, Any],
        expires_at: datetime | None,
        now: datetime,
        life: Lifespan = NEVER,
        previous: str | None = None,
        previous_until: datetime | None = None,
        uid: str | None = None,
    ) -> Connection | None:
        """Replace the credential of `version`, end lease and intent. When this returns, it is on the disk.

        `previous`: the refresh token that was redeemed, kept sealed until `previous_until`. `uid`: of the row that was seen,
        which spares a question. None: fenced off, since the row is gone or another, has another credential by now, or
        another holds the lease.
        """
        mine = {**place(ref), "seen_version": version, "owner": owner}
        new = version + 1

        def changed(uid: str) -> dict[str, Any]:
            columns = dict(SAVED) | life_columns(life)
            columns |= {"version": new, "expires_at": expires_at, "updated_at": now, "last_refreshed_at": now}
            columns["credential"] = self._seal(credential, ref, uid, "credential", new)
            if previous is not None:
                columns[PREVIOUS] = self._seal({"refresh_token": previous}, ref, uid, PREVIOUS, new)
                columns |= {f"{PREVIOUS}_version": new, f"{PREVIOUS}_until": previous_until}
            return columns

        async def write(db: AsyncConnection) -> tuple[Connection, int | None] | None:
            if uid is not None:
                row = (await db.execute(RENEWED, {**mine, "row_uid": uid, **changed(uid)})).mappings().one_or_none()
                if row is not None:
                    saved = connection_of(row)
                    return saved, await note_change(db, ref, now, ends=True)
            held = (await db.execute(HELD, mine)).one_or_none()
            if held is None or (uid is not None and held.uid != uid):
                return None
            renewed = Happening.RENEWED
            written = await note_happening(
                db, self._outbox, held, renewed, changed(held.uid), now=now, reason="renewed"
            )
            saved = connection_of({**held._mapping, **written})
            await note_change(db, ref, now, ends=True)
            return saved, None

        done = await self._transactions.write(write, before=lambda: self._keys.allow(ref.environment))
        if done is None:
            return None
        saved, unheard = done
        if unheard is not None:
            self._own.note(unheard, saved.mark)
        return saved

    async def get(self, ref: ConnectionRef) -> Connection | None:
        """The connection as it is now."""
        async with self._transactions.read() as db:
            rows = (await db.execute(WHOLE_ROW, place(ref))).mappings().all()
        found = await self._opened(rows)
        return found[0] if found else None

    async def record_failure(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        version: int,
        failure: RefreshFailure,
        still_open: bool = False,
        happening: Happening | None = None,
    ) -> Connection | None:
        """Keep why the refresh went wrong and end the lease; the credential stays. None: fenced off, as above.

        `still_open`: the provider may have redeemed the token all the same. `happening`, if it is not what such a failure
        means elsewhere.
        """
        what = happening or of_failure(failure.code, final=failure.final)
        changed = failure_columns(failure) | NO_LEASE | ({} if still_open else NO_INTENT)

        async def write(db: AsyncConnection) -> Connection | None:
            mine = {**place(ref), "seen_version": version, "owner": owner}
            row = (await db.execute(HELD_BEFORE, mine)).one_or_none()
            if row is None:
                return None
            again = row.keep_alive_at
            if again is not None:  # what is not to be asked for again has nothing to be kept alive
                again = max(again, failure.retry_at) if failure.retry_at is not None else None
            values = changed | {"updated_at": failure.at, "keep_alive_at": again}
            why = {"reason": failure.code, "detail": failure.message}
            await note_happening(db, self._outbox, row, what, values, now=failure.at, **why)
            written = await stored(db, ref)
            await note_change(db, ref, failure.at, ends=True)
            return written

        return await self._transactions.write(write)

    async def abandoned(self, now: datetime, *, limit: int) -> list[Connection]:
        """Connections whose refresh was begun by somebody who has died since: an intent under a lease that has run out."""
        table = connections.c
        wanted = select(connections).where(table.lease_until <= now, table.intent_digest.is_not(None))
        async with self._transactions.read() as db:
            rows = (await db.execute(wanted.order_by(table.lease_until).limit(limit))).mappings().all()
        return await self._opened(rows)

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

    async def forget_previous(self, now: datetime) -> None:
        """Remove refresh tokens whose grace time is over."""
        old = update(connections).where(connections.c[f"{PREVIOUS}_until"] <= now)
        await self._transactions.write(lambda db: db.execute(old.values(NO_PREVIOUS)))

    async def _opened(self, rows: Any) -> list[Connection]:
        found = [connection_of(row) for row in rows]
        await self._keys.learn(*(sealed for one in found for sealed in sealed_in(one)))
        return found

    async def _changed(self, statement: Update) -> bool:
        async def write(db: AsyncConnection) -> bool:
            return (await db.execute(statement)).rowcount == 1

        return await self._transactions.write(write)

    def _seal(self, value: Mapping[str, Any], ref: ConnectionRef, uid: str, column: str, version: int) -> bytes:
        sealed = self._vault.seal_json(
            value, environment=ref.environment, table="connections", row=uid, column=column, version=version
        )
        return sealed.ciphertext


def _then(now: datetime, began: float) -> datetime:
    """What was `now` at `began` (monotonic), by the time that has passed since."""
    return now + timedelta(seconds=clock.monotonic() - began)
