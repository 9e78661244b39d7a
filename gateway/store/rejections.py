"""What a provider's API thinks of a connection's credential: noted once it rejects call after call, withdrawn with a 2xx."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import Connection, RefreshFailure
from gateway.records.states import ENDED, REJECTED, Happening, State, of_failure
from gateway.store.changes import note_change
from gateway.store.connection_rows import NO_FAILURE, at, failure_columns, stored
from gateway.store.history import BEFORE, note_happening
from gateway.store.outbox import Outbox
from gateway.store.tables import connections
from gateway.store.transactions import Transactions

ACCEPTED: Final = "accepted"
SEEN: Final = (*BEFORE, connections.c.uid, connections.c.granted_at, connections.c.failure_code)


class RejectionStore:
    """A failed renewal says more than a rejected call, and stays; so does whatever belongs to a newer grant."""

    def __init__(self, transactions: Transactions, outbox: Outbox) -> None:
        self._transactions = transactions
        self._outbox = outbox

    async def note(self, seen: Connection, failure: RefreshFailure) -> Connection | None:
        """The row with `failure`, which is of code `REJECTED`; None where it has another grant or failure than `seen`, or
        has ended."""
        happening = of_failure(failure.code, final=failure.final)

        async def write(db: AsyncConnection) -> Connection | None:
            row = await self._row(db, seen)
            if row is None or row.failure_code not in {None, REJECTED} or State(row.state) in ENDED:
                return None
            values = failure_columns(failure) | {"updated_at": failure.at}
            why = {"reason": failure.code, "detail": failure.message}
            await note_happening(db, self._outbox, row, happening, values, now=failure.at, **why)
            written = await stored(db, seen.ref)
            await note_change(db, seen.ref, failure.at, ends=True)
            return written

        return await self._transactions.write(write)

    async def withdraw(self, seen: Connection, *, now: datetime) -> Connection | None:
        """The row without the failure that `note` wrote; None where it has none, or another grant than `seen`."""

        async def write(db: AsyncConnection) -> Connection | None:
            row = await self._row(db, seen)
            if row is None or row.failure_code != REJECTED:
                return None
            values = NO_FAILURE | {"updated_at": now}
            await note_happening(db, self._outbox, row, Happening.ACCEPTED, values, now=now, reason=ACCEPTED)
            written = await stored(db, seen.ref)
            await note_change(db, seen.ref, now, ends=True)
            return written

        return await self._transactions.write(write)

    @staticmethod
    async def _row(db: AsyncConnection, seen: Connection) -> Any:
        row: Any = (await db.execute(select(*SEEN).where(at(seen.ref)).with_for_update())).one_or_none()
        same = row is not None and (row.uid, row.granted_at) == (seen.uid, seen.granted_at)
        return row if same else None
