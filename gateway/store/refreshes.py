"""What a refresh writes: the lease, the intent before the call, and what came of it, each fenced (ADR 5, ADR 20).

Owner and version are the fence: the owner names one attempt, the version the credential it set out to replace. Whoever
lost the lease to another, or comes when the credential is another by now, changes nothing.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import Connection, ConnectionRef, Lease, Lifespan, RefreshFailure
from gateway.records.states import REJECTED, Happening, of_failure
from gateway.store.changes import note_change
from gateway.store.connection_rows import (
    NO_FAILURE,
    NO_INTENT,
    NO_LEASE,
    NO_PREVIOUS,
    PREVIOUS,
    WHOLE_ROW,
    connection_of,
    failure_columns,
    lease_columns,
    life_columns,
    place,
    sealed_in,
    stored,
)
from gateway.store.history import note_happening
from gateway.store.leases import Leases
from gateway.store.refresh_statements import HELD, HELD_BEFORE, RENEWED, SAVED, UNSETTLED
from gateway.store.tables import connections

NEVER: Final = Lifespan()


class Refreshes(Leases):
    """The part of `ConnectionStore` that refreshes use."""

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
        rotates: bool = False,
        uid: str | None = None,
    ) -> Connection | None:
        """Replace the credential of `version`, end lease and intent. When this returns, it is on the disk.

        `previous`: the refresh token that was redeemed, kept sealed until `previous_until`. `rotates`: the provider
        has replaced the refresh token, now or earlier. `uid`: of the row that was seen,
        which spares a question. None: fenced off, since the row is gone or another, has another credential by now, or
        another holds the lease.
        """
        mine = {**place(ref), "seen_version": version, "owner": owner}
        new = version + 1

        def changed(uid: str) -> dict[str, Any]:
            columns = dict(SAVED) | life_columns(life)
            columns |= {"version": new, "expires_at": expires_at, "updated_at": now, "last_refreshed_at": now}
            columns["rotates"] = rotates
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
            happening, reason, columns = Happening.RENEWED, "renewed", changed(held.uid)
            if held.failure_code == REJECTED:  # only a call shows whether the API takes the new one
                happening, reason = Happening.REPLACED, held.state_reason
                columns = {name: value for name, value in columns.items() if name not in NO_FAILURE}
            written = await note_happening(db, self._outbox, held, happening, columns, now=now, reason=reason)
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
        former: Lease | None = None,
        keep_lease: bool = False,
        happening: Happening | None = None,
    ) -> Connection | None:
        """Keep why the refresh went wrong and end the lease; the credential stays. None: fenced off, as above.

        `still_open`: the provider may have redeemed the token all the same; nothing was asked where `former` gets the lease
        back that it was claimed from, or keeps it: then `owner` is its owner, and a lease that was renewed meanwhile is a
        fence too. `keep_lease`: `owner` stays the holder, since its machine may have the reply. `happening`, if it is not what
        such a failure means elsewhere.
        """
        what = happening or of_failure(failure.code, final=failure.final)
        given_back = NO_LEASE if former is None or not still_open else lease_columns(former)
        if keep_lease:
            given_back = {}
        changed = failure_columns(failure) | given_back | ({} if still_open else NO_INTENT)

        async def write(db: AsyncConnection) -> Connection | None:
            mine = {**place(ref), "seen_version": version, "owner": owner}
            row = (await db.execute(HELD_BEFORE, mine)).one_or_none()
            if row is None:
                return None
            if former is not None and former.owner == owner and row.lease_until != former.until:
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

    async def unsettled(self, *, most: int) -> list[Connection]:
        """Connections with an open intent under a lease, at most so many: those whose lease ends or ended first."""
        async with self._transactions.read() as db:
            rows = (await db.execute(UNSETTLED, {"most": most})).mappings().all()
        return await self._opened(rows)

    async def forget_previous(self, now: datetime) -> None:
        """Remove refresh tokens whose grace time is over."""
        old = update(connections).where(connections.c[f"{PREVIOUS}_until"] <= now)
        await self._transactions.write(lambda db: db.execute(old.values(NO_PREVIOUS)))

    async def _opened(self, rows: Any) -> list[Connection]:
        found = [connection_of(row) for row in rows]
        await self._keys.learn(*(sealed for one in found for sealed in sealed_in(one)))
        return found

    def _seal(self, value: Mapping[str, Any], ref: ConnectionRef, uid: str, column: str, version: int) -> bytes:
        sealed = self._vault.seal_json(
            value, environment=ref.environment, table="connections", row=uid, column=column, version=version
        )
        return sealed.ciphertext
